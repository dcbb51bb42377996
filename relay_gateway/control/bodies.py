"""Request bodies: read under a limit, decoded strictly, and told apart field by field when bad."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec
from fastapi import Request
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from relay_gateway.control.problems import RefusedError
from relay_gateway.errors import FieldProblem

MAX_BODY_BYTES = 1024 * 1024
_EXACT = 1 << 53
"""Up to here every whole number is a floating-point number too."""
ModelT = TypeVar("ModelT", bound=BaseModel)

_CODES = {"missing": "required", "extra_forbidden": "unknown_field"}
_MESSAGES = {
    "missing": "is required",
    "extra_forbidden": "is not a field that can be set here",
}
_SERVER_OWNED = frozenset(
    {"id", "version", "managedBy", "createdAt", "updatedAt", "prefix", "revokedAt"}
)


async def read_object(request: Request, *, optional: bool = False) -> dict[str, Any]:
    """The JSON object in the request's body; an absent one is ``{}`` where it is ``optional``.

    Raises :class:`RefusedError`: 415 for another media type, 413 above 1 MiB, 400 for what is no
    JSON object (NaN, invalid UTF-8 and NUL characters included).
    """
    body = await _read(request)
    if optional and not body:
        return {}
    _check_media_type(request)
    try:
        data = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, ValueError) as error:
        raise RefusedError(
            400, "invalid_json", f"the body is not valid JSON: {_reason(error)}"
        ) from error
    if not isinstance(data, dict):
        raise RefusedError(400, "invalid_json", "the body must be a JSON object")
    for field in _nul_fields(data, ""):
        message = f"{field or 'the body'} contains a NUL character, which cannot be stored"
        raise RefusedError(400, "invalid_json", message)
    return {name: _whole(value) for name, value in data.items()}


def validate(
    model: type[ModelT], data: Mapping[str, Any], prefix: str = ""
) -> tuple[ModelT | None, list[FieldProblem]]:
    """``data`` as ``model``, or every problem with it; fields are named as the client wrote them.

    Types are not converted: ``"5"`` is no number. No problem quotes a value.
    """
    try:
        # Strict validation lets only JSON input have times and decimals as strings.
        return model.model_validate_json(msgspec.json.encode(data), strict=True), []
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        return None, [_problem(detail, prefix) for detail in details]


def join_path(parts: Sequence[str | int], prefix: str = "") -> str:
    """``("bindings", 0, "hostId")`` as ``bindings[0].hostId``."""
    path = prefix
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part != "[key]":
            path += f".{part}" if path else part
    return path


async def _read(request: Request) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise RefusedError(
                413,
                "request_too_large",
                f"the body is larger than {MAX_BODY_BYTES} bytes",
                headers={"Connection": "close"},
            )
    return bytes(body)


def _check_media_type(request: Request) -> None:
    given = request.headers.get("content-type", "")
    if given.partition(";")[0].strip().lower() != "application/json":
        raise RefusedError(
            415,
            "unsupported_media_type",
            "the body must be sent as `Content-Type: application/json`",
        )


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _whole(value: Any) -> Any:
    """``value`` with 5 for 5.0: JSON has one kind of number, and some clients always write a
    point."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= _EXACT else value
    if isinstance(value, dict):
        return {name: _whole(item) for name, item in value.items()}
    return [_whole(item) for item in value] if isinstance(value, list) else value


def _nul_fields(value: Any, field: str) -> Iterator[str]:
    if isinstance(value, str):
        if "\0" in value:
            yield field
    elif isinstance(value, dict):
        for name, item in value.items():
            if "\0" in name:
                yield field
            yield from _nul_fields(item, f"{field}.{name}" if field else name)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _nul_fields(item, f"{field}[{index}]")


def _problem(detail: ErrorDetails, prefix: str) -> FieldProblem:
    kind, location = detail["type"], detail["loc"]
    message = _MESSAGES.get(kind) or detail["msg"].removeprefix("Value error, ")
    if kind == "extra_forbidden" and location and location[-1] in _SERVER_OWNED:
        return FieldProblem(join_path(location, prefix), "read_only", "is set by the server")
    return FieldProblem(join_path(location, prefix), _CODES.get(kind, kind), message)
