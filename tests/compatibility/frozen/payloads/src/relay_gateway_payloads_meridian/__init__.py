"""Payload logger ``meridian``."""

from collections.abc import Sequence

from relay_gateway.plugin import PayloadLogger, hookimpl
from relay_gateway_payloads_meridian.payloads import MeridianConfig, MeridianPayloads

__all__ = ["MeridianConfig", "MeridianPayloads"]


@hookimpl
def relay_register_payload_loggers() -> Sequence[type[PayloadLogger]]:
    """The classes of this plugin."""
    return (MeridianPayloads,)
