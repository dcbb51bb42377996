"""Upstream provider ``meridian``, and the wire format ``meridian.talk`` that its hosts speak."""

from collections.abc import Sequence

from relay_gateway.plugin import UpstreamProvider, hookimpl
from relay_gateway_provider_meridian.formats import TalkFormat
from relay_gateway_provider_meridian.provider import MeridianHost, MeridianProvider

__all__ = ["MeridianHost", "MeridianProvider", "TalkFormat"]


@hookimpl
def relay_register_upstream_providers() -> Sequence[type[UpstreamProvider]]:
    """The classes of this plugin."""
    return (MeridianProvider,)
