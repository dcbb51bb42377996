"""Usage sink ``ledger``."""

from collections.abc import Sequence

from relay_gateway.plugin import UsageSink, hookimpl
from relay_gateway_log_ledger.sink import LedgerConfig, LedgerSink

__all__ = ["LedgerConfig", "LedgerSink"]


@hookimpl
def relay_register_usage_sinks() -> Sequence[type[UsageSink]]:
    """The classes of this plugin."""
    return (LedgerSink,)
