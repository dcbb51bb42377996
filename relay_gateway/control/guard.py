"""The outermost layer: nobody gets in unauthenticated, no error gets out unshaped."""

from __future__ import annotations

import logging

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relay_gateway.control.authenticate import Authenticator, UnauthenticatedError
from relay_gateway.control.problems import answer_to, internal_error

PUBLIC_PATHS = frozenset({"/version", "/healthz", "/readyz"})
"""All that answers without authentication; whatever is not listed here is closed."""

SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

logger = logging.getLogger(__name__)


class Guard:
    """Authenticates before routing, so that no route can be forgotten and none can be probed.

    Also adds the security headers to every answer, and turns an unexpected exception into a 500
    whose cause is only in the log.
    """

    def __init__(self, app: ASGIApp, authenticator: Authenticator) -> None:
        self._app = app
        self._authenticator = authenticator

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _SecuredAnswer(send)
        try:
            if scope["path"] not in PUBLIC_PATHS:
                identity = self._authenticator.authenticate(Headers(scope=scope))
                scope.setdefault("state", {})["identity"] = identity
            await self._app(scope, receive, answer.send)
        except UnauthenticatedError as error:
            await answer_to(error)(scope, receive, answer.send)
        except Exception:
            logger.exception("a control-plane request failed")
            if answer.started:
                raise
            await internal_error()(scope, receive, answer.send)


class _SecuredAnswer:
    """Passes an answer on with the security headers, and knows whether it has begun."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.started = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = MutableHeaders(scope=message)
            for name, value in SECURITY_HEADERS.items():
                headers[name] = value
        await self._send(message)
