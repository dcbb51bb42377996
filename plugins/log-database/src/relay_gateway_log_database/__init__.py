"""Usage sink ``database``: records in SQLite or PostgreSQL, read back as logs and totals."""

from collections.abc import Sequence

from relay_gateway.plugin import UsageSink, hookimpl
from relay_gateway_log_database.config import DatabaseSinkConfig
from relay_gateway_log_database.sink import DatabaseSink

__all__ = ["DatabaseSink", "DatabaseSinkConfig"]


@hookimpl
def relay_register_usage_sinks() -> Sequence[type[UsageSink]]:
    return (DatabaseSink,)
