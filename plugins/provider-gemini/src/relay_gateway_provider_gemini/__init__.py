"""Upstream provider ``gemini``: any host that speaks the Gemini API."""

from collections.abc import Sequence

from relay_gateway.plugin import CatalogSeed, UpstreamProvider, hookimpl
from relay_gateway_provider_gemini.provider import GeminiProvider
from relay_gateway_provider_gemini.seeds import SEED

__all__ = ["GeminiProvider"]


@hookimpl
def relay_register_upstream_providers() -> Sequence[type[UpstreamProvider]]:
    return (GeminiProvider,)


@hookimpl
def relay_register_catalog_seeds() -> Sequence[CatalogSeed]:
    return (SEED,)
