"""Errors of the control plane as answers: one envelope, ``{"error": {"code", "message", …}}``."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response
from starlette.routing import Match

from relay_gateway.control.unauthenticated import UnauthenticatedError
from relay_gateway.errors import (
    EntityNotFoundError,
    EntityReferencedError,
    InvalidEntityError,
    KeyReusedError,
    ManagedByFileError,
    MasterKeyError,
    PluginError,
    RedirectedKeysError,
    RelayError,
    SecretUnavailableError,
    SlugTakenError,
    StorageUnavailableError,
    VersionConflictError,
)

RETRY_SECONDS = "2"

logger = logging.getLogger(__name__)


class RefusedError(RelayError):
    """A request that cannot be served, with its status, code and headers."""

    def __init__(
        self, status: int, code: str, message: str, *, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.headers = dict(headers or {})


class FieldError(BaseModel):
    """One offending field of a write."""

    field: str
    code: str
    message: str


class ReferrerEntry(BaseModel):
    """An entity that points at another, and the field with which it does."""

    kind: str
    id: str
    slug: str
    field: str


class ErrorDetail(BaseModel):
    """What went wrong: a stable code, and what was asked, found and is to be done."""

    model_config = ConfigDict(extra="forbid")

    code: str
    message: str
    fields: list[FieldError] | None = None
    referrers: list[ReferrerEntry] | None = None


class ErrorAnswer(BaseModel):
    """The body of every answer that is not a success."""

    error: ErrorDetail


_STATUSES: tuple[tuple[type[RelayError], int, str], ...] = (
    (EntityNotFoundError, 404, "not_found"),
    (SlugTakenError, 409, "slug_taken"),
    (EntityReferencedError, 409, "still_referenced"),
    (ManagedByFileError, 409, "managed_by_file"),
    (RedirectedKeysError, 409, "rebind_not_confirmed"),
    (MasterKeyError, 409, "master_key_mismatch"),
    (VersionConflictError, 412, "version_conflict"),
    (InvalidEntityError, 422, "invalid_entity"),
    (KeyReusedError, 422, "idempotency_key_reused"),
    (SecretUnavailableError, 503, "secret_backend_unavailable"),
    (StorageUnavailableError, 503, "storage_unavailable"),
    (PluginError, 500, "plugin_failed"),
)


def install_error_answers(app: FastAPI) -> None:
    """Makes ``app`` answer every error in the envelope."""
    app.add_exception_handler(RelayError, _on_relay_error)
    app.add_exception_handler(HTTPException, _on_http_exception)
    app.add_exception_handler(RequestValidationError, _on_bad_parameters)


def error_response(
    status: int,
    code: str,
    message: str,
    *,
    headers: Mapping[str, str] | None = None,
    **details: Any,
) -> Response:
    """An answer in the envelope."""
    body = {"error": {"code": code, "message": message, **details}}
    return JSONResponse(body, status, headers=dict(headers or {}))


def answer_to(error: RelayError) -> Response:
    """The answer that ``error`` deserves; 500 without its text when it is not meant for callers."""
    if isinstance(error, RefusedError):
        return error_response(error.status, error.code, str(error), headers=error.headers)
    if isinstance(error, UnauthenticatedError):
        return error_response(401, error.code, str(error), headers=_headers(401))
    for kind, status, code in _STATUSES:
        if isinstance(error, kind):
            return error_response(
                status, code, _message(error), headers=_headers(status), **_details(error)
            )
    logger.error("a control-plane request failed", exc_info=error)
    return internal_error()


def internal_error() -> Response:
    """The answer to a defect: it says nothing about it, the log does."""
    return error_response(
        500, "internal_error", "the request failed inside the gateway; its log says why"
    )


def _message(error: RelayError) -> str:
    if isinstance(error, RedirectedKeysError):
        return f"{error}, with ?confirmRebind=true"
    if isinstance(error, InvalidEntityError):
        count = len(error.problems)
        return f"{count} field{'s' if count > 1 else ''} cannot be accepted; see fields"
    return str(error)


def _headers(status: int) -> dict[str, str]:
    if status == 401:
        return {"WWW-Authenticate": 'Bearer realm="control plane"'}
    return {"Retry-After": RETRY_SECONDS} if status == 503 else {}


def _details(error: RelayError) -> dict[str, Any]:
    if isinstance(error, InvalidEntityError):
        return {"fields": [_as_dict(problem) for problem in error.problems]}
    if isinstance(error, RedirectedKeysError):
        return {"referrers": [_as_dict(key) for key in error.keys]}
    if isinstance(error, EntityReferencedError):
        return {"referrers": [_as_dict(referrer) for referrer in error.referrers]}
    return {}


def _as_dict(item: Any) -> dict[str, str]:
    return {name: getattr(item, name) for name in item.__dataclass_fields__}


async def _on_relay_error(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RelayError)  # noqa: S101  # the type it is registered for
    return answer_to(error)


async def _on_http_exception(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101  # the type it is registered for
    path = request.url.path
    if error.status_code == 404:
        return error_response(404, "unknown_endpoint", f"there is nothing at {path!r}")
    if error.status_code == 405:
        allowed = ", ".join(sorted(_allowed_methods(request)))
        message = f"{request.method} is not possible at {path!r}; possible: {allowed}"
        return error_response(405, "method_not_allowed", message, headers={"Allow": allowed})
    return error_response(error.status_code, "refused", str(error.detail))


def _allowed_methods(request: Request) -> Iterable[str]:
    methods: set[str] = set()
    for route in request.app.routes:
        match, _ = route.matches(request.scope)
        if match is not Match.NONE:
            methods |= set(getattr(route, "methods", None) or ())
    return methods


async def _on_bad_parameters(_request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101  # the type it is registered for
    problems = [f"{'.'.join(map(str, item['loc'][1:]))}: {item['msg']}" for item in error.errors()]
    return error_response(400, "invalid_parameter", "; ".join(problems))
