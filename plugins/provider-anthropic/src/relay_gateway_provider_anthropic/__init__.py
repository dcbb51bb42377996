"""Upstream provider ``anthropic``: any host that speaks the Anthropic Messages API."""

from collections.abc import Sequence

from relay_gateway.plugin import CatalogSeed, UpstreamProvider, hookimpl
from relay_gateway_provider_anthropic.provider import AnthropicProvider
from relay_gateway_provider_anthropic.seeds import SEED

__all__ = ["AnthropicProvider"]


@hookimpl
def relay_register_upstream_providers() -> Sequence[type[UpstreamProvider]]:
    return (AnthropicProvider,)


@hookimpl
def relay_register_catalog_seeds() -> Sequence[CatalogSeed]:
    return (SEED,)
