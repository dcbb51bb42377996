"""Secret backend ``netrc``."""

from collections.abc import Sequence

from relay_gateway.plugin import SecretBackend, hookimpl
from relay_gateway_secret_netrc.backend import NetrcBackend, NetrcConfig, NetrcRef

__all__ = ["NetrcBackend", "NetrcConfig", "NetrcRef"]


@hookimpl
def relay_register_secret_backends() -> Sequence[type[SecretBackend]]:
    """The classes of this plugin."""
    return (NetrcBackend,)
