"""Who calls the control plane: an identity, or an error."""

from __future__ import annotations

from typing import Literal

import msgspec
from starlette.datastructures import Headers

from relay_gateway.control.problems import RefusedError
from relay_gateway.control.refused_tokens import RefusedTokens
from relay_gateway.control.services import ControlServices
from relay_gateway.control.sessions import Sessions
from relay_gateway.control.unauthenticated import UnauthenticatedError
from relay_gateway.secret import Secret
from relay_gateway.security.admin import AdminToken
from relay_gateway.security.csrf import cookie_problem
from relay_gateway.security.sessions import ABSOLUTE_SECONDS, COOKIE


class Identity(msgspec.Struct, frozen=True):
    """An authenticated caller. There are no roles: every identity may do everything.

    ``session`` is the hash of its session's token, ``expires_at`` the end of the session in seconds
    since the epoch.
    """

    username: str
    method: Literal["admin-token", "session"]
    session: str | None = None
    expires_at: int | None = None


class Authenticator:
    """Tells who sent a request, from its headers. Never answers "nobody": it raises."""

    def __init__(self, services: ControlServices, sessions: Sessions) -> None:
        self._admin = AdminToken(services.admin_token) if services.admin_token else None
        self._sessions = sessions
        self._refused = RefusedTokens(services.audit)
        self._origins = services.access.cors_origins

    async def authenticate(self, method: str, headers: Headers) -> Identity:
        """The caller's identity. An ``Authorization`` header decides alone where there is one: no
        browser adds it by itself, as it does a cookie.

        Raises :class:`UnauthenticatedError`; :class:`RefusedError` for what another site may have
        made a browser send (403) and for a flood of wrong tokens (429);
        :class:`StorageUnavailableError` when sessions cannot be looked up.
        """
        authorization = headers.get("authorization")
        token = session_token(headers) if authorization is None else None
        if token is None:
            return await self._by_bearer(authorization or "")
        problem = cookie_problem(method, headers, self._origins)
        if problem is not None:
            raise cross_site(problem)
        session = await self._sessions.find(token)
        expires = session.created_at + ABSOLUTE_SECONDS
        return Identity(session.username, "session", session.token_hash, expires)

    async def _by_bearer(self, authorization: str) -> Identity:
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise UnauthenticatedError(
                "the control plane needs the header `Authorization: Bearer <admin token>`, or the "
                "cookie of a session that `POST /auth/login` begins"
            )
        if self._admin is None:
            raise UnauthenticatedError(
                "no admin token is configured here; set RELAY_ADMIN_TOKEN and start again"
            )
        if not self._admin.matches(token.strip()):
            raise await self._refused.refuse()
        return Identity("admin", "admin-token")


def session_token(headers: Headers) -> Secret | None:
    """The session cookie; ``None`` also when there are several different ones, because then some
    other host has set one."""
    values = {
        value.strip()
        for header in headers.getlist("cookie")
        for name, _, value in (part.partition("=") for part in header.split(";"))
        if name.strip() == COOKIE
    }
    return Secret(values.pop()) if len(values) == 1 else None


def cross_site(problem: str) -> RefusedError:
    """The refusal of a request that another site may have made a browser send."""
    return RefusedError(
        403, "cross_site_request", f"the request may come from another site: {problem}"
    )
