"""Usage sink ``file``, JSON lines in files that rotate or on standard output, and payload logger
``file``, a file for each request."""

from collections.abc import Sequence

from relay_gateway.plugin import PayloadLogger, UsageSink, hookimpl
from relay_gateway_log_file.config import FilePayloadsConfig, FileSinkConfig
from relay_gateway_log_file.payloads import FilePayloads
from relay_gateway_log_file.sink import FileSink

__all__ = ["FilePayloads", "FilePayloadsConfig", "FileSink", "FileSinkConfig"]


@hookimpl
def relay_register_usage_sinks() -> Sequence[type[UsageSink]]:
    return (FileSink,)


@hookimpl
def relay_register_payload_loggers() -> Sequence[type[PayloadLogger]]:
    return (FilePayloads,)
