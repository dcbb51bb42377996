"""Answers in the OpenAPI document: every error that an operation can give, and common headers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

ERROR = "#/components/schemas/ErrorAnswer"
SAFE_METHODS = frozenset({"get", "head"})
PROBES = frozenset({"/healthz", "/readyz"})

_RETRY = {
    "description": "Seconds to wait.",
    "required": True,
    "schema": {"type": "string", "pattern": "^[0-9]+$"},
}
_FLAG = {"type": "string", "const": "true"}
_DRY_RUN = {"description": "Stands there when nothing was written.", "schema": _FLAG}
_PENDING = {
    "description": "Stands there when the write is made, but not yet known to be in effect.",
    "schema": {"type": "string", "const": "pending"},
}
_REQUEST_ID = {
    "description": "Id of this request, as in the log and the audit log.",
    "required": True,
    "schema": {"type": "string", "format": "uuid"},
}
_CHALLENGE = {"description": "How to authenticate.", "required": True, "schema": {"type": "string"}}
_HEADERS: Mapping[int, Mapping[str, Any]] = {
    401: {"WWW-Authenticate": _CHALLENGE},
    429: {"Retry-After": _RETRY},
    503: {"Retry-After": _RETRY},
}
_FIELD = {"field": "metadata.displayName", "code": "required", "message": "is required"}
_REFERRER = {
    "kind": "relay key",
    "id": "01890a5d-ac96-774b-bcce-b302099a8057",
    "slug": "ci",
    "field": "spec.policyId",
}
_ERRORS: Mapping[int, tuple[str, str, str, Mapping[str, Any]]] = {
    400: (
        "A parameter, a header or the body cannot be read.",
        "unknown_parameter",
        "there is no parameter 'lmit' here; there are: limit",
        {},
    ),
    401: ("Not authenticated.", "unauthenticated", "this is not the admin token", {}),
    403: (
        "Another site may have made a browser send this.",
        "cross_site_request",
        "the request may come from another site: its Origin is not that of this address",
        {},
    ),
    404: ("There is no such thing.", "not_found", "no policy has the id or slug 'acme'", {}),
    409: (
        "In conflict with other entities; what it conflicts with is named.",
        "still_referenced",
        "policy 'acme' is still referred to; see referrers",
        {"referrers": [_REFERRER]},
    ),
    412: (
        "Somebody else wrote first.",
        "version_conflict",
        "policy 'acme' has version 4, not 3; read it again",
        {},
    ),
    413: (
        "The body is larger than 1 MiB.",
        "request_too_large",
        "the body is larger than 1048576 bytes",
        {},
    ),
    415: (
        "The body is not `application/json`.",
        "unsupported_media_type",
        "the body must be sent as `Content-Type: application/json`",
        {},
    ),
    421: (
        "The control plane does not answer under this host name.",
        "unknown_host",
        "the control plane does not answer under this host name",
        {},
    ),
    422: (
        "Fields that cannot be accepted, each with its reason; all of them at once.",
        "invalid_entity",
        "1 field cannot be accepted; see fields",
        {"fields": [_FIELD]},
    ),
    429: (
        "Too much of this lately; try again after `Retry-After`.",
        "too_many_logins",
        "too many failed logins; try again in 8 s",
        {},
    ),
    500: (
        "A defect of the gateway; its log says which.",
        "internal_error",
        "the request failed inside the gateway; its log says why",
        {},
    ),
    501: (
        "Nothing that could serve this is configured.",
        "usage_not_readable",
        "none of the configured usage sinks can be read; add one that can to usage_logging.sinks",
        {},
    ),
    503: (
        "A part that this needs cannot be asked right now; try again after `Retry-After`.",
        "storage_unavailable",
        "the database cannot be asked right now",
        {},
    ),
}


def add_answers(document: Mapping[str, Any], prefix: str) -> None:
    """Completes the answers of every operation; errors become references to shared ones.
    ``prefix`` is that of the gateway's own headers."""
    headers = {f"{prefix}Request-Id": {"$ref": "#/components/headers/RequestId"}}
    pending = {f"{prefix}Propagation": {"$ref": "#/components/headers/Propagation"}}
    components = document["components"]
    components["headers"] = {"RequestId": _REQUEST_ID, "Propagation": _PENDING}
    components["responses"] = {
        f"Error{status}": _error(status, headers) for status in sorted(_ERRORS)
    }
    for path, item in document["paths"].items():
        for method, operation in item.items():
            safe = method in SAFE_METHODS
            common = headers if safe else {**headers, **pending}
            operation["responses"] = _answers(path, method, operation, common)


def _answers(
    path: str, method: str, operation: Mapping[str, Any], headers: Mapping[str, Any]
) -> dict[str, Any]:
    given = {status: item for status, item in operation["responses"].items() if status != "default"}
    answers: dict[str, Any] = {}
    for status in sorted({*given, *map(str, _general(path, method, operation))}):
        item = given.get(status)
        if item is None or _is_error(item):
            answers[status] = {"$ref": f"#/components/responses/Error{status}"}
        else:
            own = {**item.get("headers", {}), **_write_headers(operation)}
            answers[status] = {**item, "headers": {**own, **headers}}
    return answers


def _general(path: str, method: str, operation: Mapping[str, Any]) -> Iterator[int]:
    """Errors that do not depend on what an operation does."""
    yield 400
    yield 500
    if path not in PROBES:
        yield 421
    if operation["security"]:
        yield 401
        yield 503
        if method not in SAFE_METHODS:
            yield 403


def _write_headers(operation: Mapping[str, Any]) -> dict[str, Any]:
    parameters = {parameter["name"] for parameter in operation.get("parameters", ())}
    return {"X-Relay-Dry-Run": _DRY_RUN} if "dryRun" in parameters else {}


def _is_error(item: Mapping[str, Any]) -> bool:
    schema = item.get("content", {}).get("application/json", {}).get("schema", {})
    return bool(schema.get("$ref") == ERROR)


def _error(status: int, headers: Mapping[str, Any]) -> dict[str, Any]:
    description, code, message, details = _ERRORS[status]
    example = {"error": {"code": code, "message": message, **details}}
    return {
        "description": description,
        "headers": {**headers, **_HEADERS.get(status, {})},
        "content": {"application/json": {"schema": {"$ref": ERROR}, "example": example}},
    }
