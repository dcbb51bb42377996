"""Logging in to Vault: one function for each method, all of them blocking."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from relay_gateway.errors import SecretDeniedError, SecretUnavailableError
from relay_gateway.plugin import Secret
from relay_gateway_secret_vault.models import SERVICE_ACCOUNT, VaultConfig


@dataclass(frozen=True, slots=True)
class Lease:
    """How long a token lives. ``seconds`` is 0 for one that never ends."""

    seconds: float
    renewable: bool


@dataclass(frozen=True, slots=True, eq=False)
class Login:
    """A token with its lease, and what it was given for."""

    token: Secret
    lease: Lease
    shown: Secret


def log_in(
    client: Any, config: VaultConfig, variable: str | None, hide: Callable[[Secret], None]
) -> Login:
    """A login with the configured method; ``variable`` is the value of ``VAULT_TOKEN``.

    ``client`` is an ``hvac.Client``, whose token changes only for the method ``token``; ``hide``
    keeps what is shown to Vault, and what it gives, out of the logs. Raises what hvac and requests
    raise, :class:`SecretDeniedError` for a credential that is not there.
    """
    shown = Secret(_shown(config, variable))
    hide(shown)
    if config.auth == "token":
        return _with_token(client, shown)
    auth = _exchanged(client, config, shown.reveal())
    login = Login(Secret(str(auth.get("client_token", ""))), lease_of(auth), shown)
    hide(login.token)
    return login


def _exchanged(client: Any, config: VaultConfig, shown: str) -> Mapping[str, Any]:
    """What Vault gives for a credential that is no token."""
    if config.auth == "approle":
        answer = client.auth.approle.login(
            role_id=config.role_id,
            secret_id=shown or None,
            use_token=False,
            mount_point=config.auth_mount or "approle",
        )
    elif config.auth == "kubernetes":
        answer = client.auth.kubernetes.login(
            role=config.role,
            jwt=shown,
            use_token=False,
            mount_point=config.auth_mount or "kubernetes",
        )
    else:
        answer = client.auth.jwt.jwt_login(
            role=config.role,
            jwt=shown,
            use_token=False,
            path=config.auth_mount or "jwt",
        )
    return member(document(answer), "auth")


def lease_of(auth: Mapping[str, Any]) -> Lease:
    """The lease in an answer to a login or a renewal."""
    seconds = auth.get("lease_duration", auth.get("ttl"))
    usable = isinstance(seconds, int) and seconds > 0
    return Lease(float(seconds) if usable else 0.0, auth.get("renewable") is True)


def document(answer: Any) -> Mapping[str, Any]:
    """``answer`` where it is one of Vault's. hvac gives anything else back as a response."""
    if isinstance(answer, dict):
        return answer
    status = getattr(answer, "status_code", "?")
    raise SecretUnavailableError(
        f"what answered with status {status} was not an active Vault: check address in "
        "[secret_backends.vault]"
    )


def member(answer: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The object ``name`` of an answer; empty where there is none."""
    value = answer.get(name)
    return value if isinstance(value, dict) else {}


def _with_token(client: Any, token: Secret) -> Login:
    client.token = token.reveal()
    facts = member(document(client.auth.token.lookup_self()), "data")
    return Login(token, lease_of(facts), token)


def _shown(config: VaultConfig, variable: str | None) -> str:
    """What the gateway proves with who it is; empty for an AppRole without a secret id."""
    if config.auth == "token":
        return _own_token(config, variable)
    if config.auth == "approle":
        return _secret_id(config) or ""
    return _read(config.jwt_file or SERVICE_ACCOUNT)


def _own_token(config: VaultConfig, variable: str | None) -> str:
    if config.token is not None:
        return config.token.get_secret_value()
    if config.token_file is not None:
        return _read(config.token_file)
    if variable:
        return variable
    raise SecretDeniedError(
        "no token for Vault: set token or token_file in [secret_backends.vault], or VAULT_TOKEN"
    )


def _secret_id(config: VaultConfig) -> str | None:
    if config.secret_id is not None:
        return config.secret_id.get_secret_value()
    return _read(config.secret_id_file) if config.secret_id_file is not None else None


def _read(file: Path) -> str:
    try:
        text = file.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        kind = type(error).__name__
    else:
        if text:
            return text
        kind = "it is empty"
    raise SecretDeniedError(f"{file} cannot be used to log in to Vault: {kind}")
