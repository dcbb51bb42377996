"""Secret backend ``stored``: host keys kept encrypted in the catalog."""

from collections.abc import Sequence

from relay_gateway.plugin import SecretBackend, hookimpl
from relay_gateway_secret_stored.backend import StoredSecrets
from relay_gateway_secret_stored.refs import PublicRef, SealedRef, ValueRef

__all__ = ["PublicRef", "SealedRef", "StoredSecrets", "ValueRef"]


@hookimpl
def relay_register_secret_backends() -> Sequence[type[SecretBackend]]:
    return (StoredSecrets,)
