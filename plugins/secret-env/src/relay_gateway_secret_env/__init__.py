"""Secret backend ``env``: host keys from environment variables."""

from collections.abc import Sequence

from relay_gateway.plugin import SecretBackend, hookimpl
from relay_gateway_secret_env.backend import EnvConfig, EnvironmentSecrets, EnvRef

__all__ = ["EnvConfig", "EnvRef", "EnvironmentSecrets"]


@hookimpl
def relay_register_secret_backends() -> Sequence[type[SecretBackend]]:
    return (EnvironmentSecrets,)
