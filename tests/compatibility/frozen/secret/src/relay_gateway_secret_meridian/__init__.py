"""Secret backend ``meridian``."""

from collections.abc import Sequence

from relay_gateway.plugin import SecretBackend, hookimpl
from relay_gateway_secret_meridian.backend import MeridianBackend, MeridianConfig, MeridianRef

__all__ = ["MeridianBackend", "MeridianConfig", "MeridianRef"]


@hookimpl
def relay_register_secret_backends() -> Sequence[type[SecretBackend]]:
    """The classes of this plugin."""
    return (MeridianBackend,)
