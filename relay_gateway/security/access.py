"""Refusing to start with credentials of the control plane that protect too little."""

from __future__ import annotations

from ipaddress import ip_address

from relay_gateway.errors import SettingsError
from relay_gateway.secret import Secret
from relay_gateway.security.admin import DIGEST_PREFIX
from relay_gateway.security.passwords import is_hash, stored_problem
from relay_gateway.settings import Settings

MIN_TOKEN_LENGTH = 32
TOKEN_USER = "admin-token"  # noqa: S105 - a user name, not a credential
"""Name under which the admin token is the password of a login."""


def login_users(settings: Settings) -> dict[str, Secret]:
    """User name → stored password, of everybody who may log in.

    Raises :class:`SettingsError` for a name that comes twice, and for :data:`TOKEN_USER`.
    """
    users = {user.username: user.password for user in settings.users}
    if len(users) < len(settings.users):
        raise SettingsError("users: a user name comes twice; each must be there once")
    if settings.admin_password is not None:
        if settings.admin_username in users:
            raise SettingsError(
                f"users: {settings.admin_username!r} is also the admin_username; keep one of them"
            )
        users[settings.admin_username] = settings.admin_password
    if TOKEN_USER in users:
        raise SettingsError(
            f"users: {TOKEN_USER!r} is who logs in with the admin token; take another name"
        )
    return users


def check_access(settings: Settings) -> None:
    """Refuses passwords that nobody could use, and on a control plane that other machines can
    reach also plain-text passwords and a short admin token.

    Raises :class:`SettingsError` naming users, never a password.
    """
    reachable = settings.control_port is not None and not is_loopback(settings.control_host)
    for name, password in login_users(settings).items():
        problem = stored_problem(password)
        if problem is not None:
            raise SettingsError(f"the password of the user {name!r} {problem}")
        if reachable and not is_hash(password):
            raise SettingsError(
                f"the password of the user {name!r} is plain text, which is not accepted where "
                f"other machines can reach the control plane (control_host is "
                f"{settings.control_host}); hash it with `relay-gateway users hash-password`"
            )
    if reachable and settings.admin_token is not None:
        _check_token(settings.admin_token)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach what listens on ``host``."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_token(token: Secret) -> None:
    text = token.reveal()
    if len(text) < MIN_TOKEN_LENGTH and not text.startswith(DIGEST_PREFIX):
        raise SettingsError(
            f"admin_token: has fewer than {MIN_TOKEN_LENGTH} characters, which is not accepted "
            "where other machines can reach the control plane; make one with `openssl rand -hex 32`"
        )
