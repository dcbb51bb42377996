"""Upstream provider ``acme``, and the wire format ``acme.talk`` that its hosts speak."""

from collections.abc import Sequence

from relay_gateway.plugin import UpstreamProvider, hookimpl
from relay_gateway_provider_acme.formats import TalkFormat
from relay_gateway_provider_acme.provider import AcmeHost, AcmeProvider

__all__ = ["AcmeHost", "AcmeProvider", "TalkFormat"]


@hookimpl
def relay_register_upstream_providers() -> Sequence[type[UpstreamProvider]]:
    """The classes of this plugin."""
    return (AcmeProvider,)
