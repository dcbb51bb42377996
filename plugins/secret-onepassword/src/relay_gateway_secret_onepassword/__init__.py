"""Secret backend ``onepassword``: host keys from a 1Password Connect server."""

from collections.abc import Sequence

from relay_gateway.plugin import SecretBackend, hookimpl
from relay_gateway_secret_onepassword.backend import OnePasswordSecrets
from relay_gateway_secret_onepassword.models import OnePasswordConfig, OnePasswordRef

__all__ = ["OnePasswordConfig", "OnePasswordRef", "OnePasswordSecrets"]


@hookimpl
def relay_register_secret_backends() -> Sequence[type[SecretBackend]]:
    return (OnePasswordSecrets,)
