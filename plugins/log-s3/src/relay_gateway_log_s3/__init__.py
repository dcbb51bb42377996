"""Usage sink ``s3`` and payload logger ``s3``: objects in S3 and in stores that speak like it."""

from collections.abc import Sequence

from relay_gateway.plugin import PayloadLogger, UsageSink, hookimpl
from relay_gateway_log_s3.config import S3PayloadsConfig, S3UsageConfig
from relay_gateway_log_s3.payloads import S3Payloads
from relay_gateway_log_s3.usage import S3Usage

__all__ = ["S3Payloads", "S3PayloadsConfig", "S3Usage", "S3UsageConfig"]


@hookimpl
def relay_register_usage_sinks() -> Sequence[type[UsageSink]]:
    return (S3Usage,)


@hookimpl
def relay_register_payload_loggers() -> Sequence[type[PayloadLogger]]:
    return (S3Payloads,)
