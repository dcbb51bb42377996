"""What went wrong with a call of Vault, in the words of the gateway; Vault's are not quoted."""

from __future__ import annotations

from dataclasses import dataclass

from relay_gateway.errors import (
    SecretDeniedError,
    SecretError,
    SecretNotFoundError,
    SecretUnavailableError,
)

REFUSED = ("Forbidden", "Unauthorized")
LOGIN = "the login"


@dataclass(frozen=True, slots=True)
class Refusal:
    """The error to raise, and whether Vault refused the token or what it asked for."""

    error: SecretError
    refused: bool = False


def refusal(error: Exception, place: str) -> Refusal:
    """What an error of hvac or requests means for ``place``."""
    if isinstance(error, SecretError):
        return Refusal(error)
    name = type(error).__name__
    if not type(error).__module__.startswith("hvac"):
        return Refusal(SecretUnavailableError(f"Vault could not be asked for {place} ({name})"))
    told = f"Vault answered {name} for {place}"
    if place == LOGIN and name in (*REFUSED, "InvalidPath", "InvalidRequest"):
        how = "check auth, auth_mount, its credential and namespace in [secret_backends.vault]"
        return Refusal(SecretDeniedError(f"{told}: {how}"), refused=True)
    if name in REFUSED:
        how = "let the gateway's policy read it, and tell kv_version if Vault may not be asked"
        return Refusal(SecretDeniedError(f"{told}: {how}"), refused=True)
    return Refusal(_answered(name, told))


def _answered(name: str, told: str) -> SecretError:
    if name == "InvalidPath":
        return SecretNotFoundError(f"{told}: it does not exist or is deleted")
    if name == "InvalidRequest":
        return SecretDeniedError(f"{told}: check the reference and [secret_backends.vault]")
    return SecretUnavailableError(f"{told}: it is sealed, busy or broken")
