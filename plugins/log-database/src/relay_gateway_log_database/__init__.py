"""Usage sink and payload logger ``database``: in SQLite or PostgreSQL, and read back."""

from collections.abc import Sequence

from relay_gateway.plugin import PayloadLogger, UsageSink, hookimpl
from relay_gateway_log_database.config import DatabasePayloadsConfig, DatabaseSinkConfig
from relay_gateway_log_database.payload_logger import DatabasePayloads
from relay_gateway_log_database.sink import DatabaseSink

__all__ = ["DatabasePayloads", "DatabasePayloadsConfig", "DatabaseSink", "DatabaseSinkConfig"]


@hookimpl
def relay_register_usage_sinks() -> Sequence[type[UsageSink]]:
    return (DatabaseSink,)


@hookimpl
def relay_register_payload_loggers() -> Sequence[type[PayloadLogger]]:
    return (DatabasePayloads,)
