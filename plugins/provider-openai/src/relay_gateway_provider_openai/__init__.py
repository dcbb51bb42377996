"""Upstream provider ``openai``: any host that speaks the OpenAI API."""

from collections.abc import Sequence

from relay_gateway.plugin import CatalogSeed, UpstreamProvider, hookimpl
from relay_gateway_provider_openai.compatible_hosts import HOSTS_SEED
from relay_gateway_provider_openai.host_config import OpenAIHost
from relay_gateway_provider_openai.provider import OpenAIProvider
from relay_gateway_provider_openai.seeds import SEED

__all__ = ["OpenAIHost", "OpenAIProvider"]


@hookimpl
def relay_register_upstream_providers() -> Sequence[type[UpstreamProvider]]:
    return (OpenAIProvider,)


@hookimpl
def relay_register_catalog_seeds() -> Sequence[CatalogSeed]:
    return (SEED, HOSTS_SEED)
