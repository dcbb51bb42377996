"""Who calls the control plane: an identity, or an error."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from starlette.datastructures import Headers

from relay_gateway.errors import RelayError
from relay_gateway.secret import Secret
from relay_gateway.security.admin import AdminToken


class UnauthenticatedError(RelayError):
    """The caller has not shown who it is; the message may be shown to it."""


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated caller. There are no roles: every identity may do everything."""

    username: str
    method: Literal["admin-token"]


class Authenticator:
    """Tells who sent a request, from its headers. Never answers "nobody": it raises."""

    def __init__(self, admin_token: Secret | None) -> None:
        self._admin = AdminToken(admin_token) if admin_token else None

    def authenticate(self, headers: Headers) -> Identity:
        """The caller's identity. Raises :class:`UnauthenticatedError`."""
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            raise UnauthenticatedError(
                "the control plane needs the header `Authorization: Bearer <admin token>`"
            )
        if self._admin is None:
            raise UnauthenticatedError(
                "no admin token is configured here; set RELAY_ADMIN_TOKEN and start again"
            )
        if not self._admin.matches(token.strip()):
            raise UnauthenticatedError("this is not the admin token")
        return Identity("admin", "admin-token")
