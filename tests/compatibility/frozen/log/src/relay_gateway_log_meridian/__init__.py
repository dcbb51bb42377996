"""Usage sink ``meridian``."""

from collections.abc import Sequence

from relay_gateway.plugin import UsageSink, hookimpl
from relay_gateway_log_meridian.sink import MeridianConfig, MeridianSink

__all__ = ["MeridianConfig", "MeridianSink"]


@hookimpl
def relay_register_usage_sinks() -> Sequence[type[UsageSink]]:
    """The classes of this plugin."""
    return (MeridianSink,)
