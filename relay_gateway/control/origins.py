"""Cross-origin requests: what browsers are told about pages of other sites."""

from __future__ import annotations

from collections.abc import Collection

from starlette.datastructures import Headers
from starlette.responses import Response

_METHODS = "GET, POST, PUT, DELETE"
_ALLOWED = "Authorization, Content-Type, Idempotency-Key, If-Match, X-Relay-CSRF"
_EXPOSED = "ETag, Retry-After, X-Relay-Request-Id"
_PREFLIGHT_SECONDS = "600"


class CrossOrigin:
    """Answers pages of the listed origins and no others; an origin is never reflected unseen."""

    def __init__(self, origins: Collection[str]) -> None:
        self._origins = frozenset(origins)

    def answer_headers(self, headers: Headers) -> dict[str, str]:
        """What an answer says about who may read it."""
        if not self._origins:
            return {}
        origin = headers.get("origin", "")
        if origin not in self._origins:
            return {"Vary": "Origin"}
        return {
            "Vary": "Origin",
            "Access-Control-Allow-Origin": origin,
            "Access-Control-Allow-Credentials": "true",
            "Access-Control-Expose-Headers": _EXPOSED,
        }

    def preflight(self, method: str, headers: Headers) -> Response | None:
        """The answer to the question that a browser asks for a page of a listed origin."""
        asked = method == "OPTIONS" and "access-control-request-method" in headers
        if not asked or headers.get("origin", "") not in self._origins:
            return None
        return Response(
            status_code=204,
            headers={
                "Access-Control-Allow-Methods": _METHODS,
                "Access-Control-Allow-Headers": _ALLOWED,
                "Access-Control-Max-Age": _PREFLIGHT_SECONDS,
            },
        )
