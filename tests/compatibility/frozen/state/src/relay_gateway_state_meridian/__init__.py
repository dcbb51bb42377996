"""State store ``meridian``."""

from collections.abc import Sequence

from relay_gateway.plugin import StateStore, hookimpl
from relay_gateway_state_meridian.store import MeridianConfig, MeridianStore

__all__ = ["MeridianConfig", "MeridianStore"]


@hookimpl
def relay_register_state_stores() -> Sequence[type[StateStore]]:
    """The classes of this plugin."""
    return (MeridianStore,)
