"""Secret backend ``vault``: host keys from HashiCorp Vault or OpenBao."""

from collections.abc import Sequence

from relay_gateway.plugin import SecretBackend, hookimpl
from relay_gateway_secret_vault.backend import VaultSecrets
from relay_gateway_secret_vault.models import VaultConfig, VaultRef

__all__ = ["VaultConfig", "VaultRef", "VaultSecrets"]


@hookimpl
def relay_register_secret_backends() -> Sequence[type[SecretBackend]]:
    return (VaultSecrets,)
