"""The outermost layer: nobody gets in unauthenticated, no error gets out unshaped."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from relay_gateway import log
from relay_gateway.control.authenticate import Authenticator, Identity
from relay_gateway.control.dashboard import is_dashboard, serve_dashboard
from relay_gateway.control.effect import pending
from relay_gateway.control.metrics import PATH as METRICS
from relay_gateway.control.origins import CrossOrigin
from relay_gateway.control.problems import RefusedError, answer_to, internal_error
from relay_gateway.control.services import AccessRules
from relay_gateway.errors import RelayError
from relay_gateway.http.message import Headers as ReceivedHeaders
from relay_gateway.ids import new_id
from relay_gateway.security.csrf import is_address_or_localhost, is_allowed_host
from relay_gateway.storage.audit import Actor, acting

PROBES = frozenset({"/healthz", "/readyz"})
"""What load balancers ask, under whatever host name they like."""
PUBLIC_PATHS = frozenset({"/version", "/auth/login", *PROBES})
"""All that answers without authentication, besides the metrics where the settings make them public;
whatever is not listed here is closed."""

SECURITY_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

_OWN_OF_DASHBOARD = frozenset({"Cache-Control", "Content-Security-Policy"})
"""Headers that a file of the dashboard has its own of."""

logger = logging.getLogger(__name__)


def public_paths(access: AccessRules) -> frozenset[str]:
    """What answers without authentication."""
    return PUBLIC_PATHS | {METRICS} if access.metrics_public else PUBLIC_PATHS


class Guard:
    """Authenticates before routing, so that no route can be forgotten and none can be probed.

    Also adds the security headers to every answer, says on whose behalf writes are made, and turns
    an unexpected exception into a 500 whose cause is only in the log.
    """

    def __init__(self, app: ASGIApp, authenticator: Authenticator, access: AccessRules) -> None:
        self._app = app
        self._authenticator = authenticator
        self._access = access
        self._cross_origin = CrossOrigin(access.cors_origins)
        self._public = public_paths(access)
        self._request_id = f"{access.header_prefix}Request-Id"
        self._propagation = f"{access.header_prefix}Propagation"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await self._http(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._app(scope, receive, send)

    async def _http(self, scope: Scope, receive: Receive, send: Send) -> None:
        request_id = new_id()
        headers = Headers(scope=scope)
        extra = {**self._cross_origin.answer_headers(headers), self._request_id: request_id}
        dashboard = is_dashboard(scope["path"])
        answer = _SecuredAnswer(
            send, extra, self._propagation, _OWN_OF_DASHBOARD if dashboard else frozenset()
        )
        actor = Actor("", "none", address=self._address(scope), request_id=request_id)
        logged, acted = log.request_id.set(request_id), acting.set(actor)
        effect = pending.set(False)
        try:
            if dashboard:
                self._check_host(headers.get("host", ""))
                await serve_dashboard(scope, receive, answer.send)
                return
            refusal = await self._admit(scope, headers)
            await (refusal or self._app)(scope, receive, answer.send)
        except RelayError as error:
            await answer_to(error)(scope, receive, answer.send)
        except Exception:
            logger.exception("a control-plane request failed")
            if answer.started:
                raise
            await internal_error()(scope, receive, answer.send)
        finally:
            log.request_id.reset(logged)
            acting.reset(acted)
            pending.reset(effect)

    async def _admit(self, scope: Scope, headers: Headers) -> Response | None:
        """Says who calls; or the answer to a request that needs nobody. Raises for the others."""
        if scope["path"] not in PROBES:
            self._check_host(headers.get("host", ""))
        preflight = self._cross_origin.preflight(scope["method"], headers)
        if preflight is not None:
            return preflight
        if scope["path"] not in self._public:
            identity = await self._authenticator.authenticate(scope["method"], headers)
            scope.setdefault("state", {})["identity"] = identity
            acting.set(_acting_as(identity, acting.get()))
        return None

    def _check_host(self, host: str) -> None:
        allowed = self._access.allowed_hosts
        if allowed is None:
            return
        if is_allowed_host(host, allowed) if allowed else is_address_or_localhost(host):
            return
        raise RefusedError(
            421,
            "unknown_host",
            "the control plane does not answer under this host name; "
            "add it to RELAY_ALLOWED_HOSTS where that is wanted",
        )

    def _address(self, scope: Scope) -> str:
        client = scope.get("client")
        peer = client[0] if client else ""
        return self._access.addresses.read(peer, ReceivedHeaders(scope["headers"]))


def _acting_as(identity: Identity, actor: Actor) -> Actor:
    return Actor(
        identity.username, identity.method, identity.session, actor.address, actor.request_id
    )


class _SecuredAnswer:
    """Passes an answer on with the headers that every answer has, and knows whether it has
    begun."""

    def __init__(
        self, send: Send, extra: Mapping[str, str], propagation: str, own: frozenset[str]
    ) -> None:
        self._send = send
        self._extra = extra
        self._own = own
        self._propagation = propagation
        self.started = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.started = True
            headers = MutableHeaders(scope=message)
            for name, value in (*SECURITY_HEADERS.items(), *self._extra.items()):
                if name not in self._own or name not in headers:
                    headers[name] = value
            if pending.get():
                headers[self._propagation] = "pending"
        await self._send(message)
