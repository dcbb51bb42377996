"""Upstream provider ``echo``: answers inside the process, for demonstrations and tests."""

from collections.abc import Sequence

from relay_gateway.plugin import CatalogSeed, UpstreamProvider, hookimpl
from relay_gateway_provider_echo.provider import EchoHost, EchoProvider
from relay_gateway_provider_echo.seeds import SEED

__all__ = ["EchoHost", "EchoProvider"]


@hookimpl
def relay_register_upstream_providers() -> Sequence[type[UpstreamProvider]]:
    return (EchoProvider,)


@hookimpl
def relay_register_catalog_seeds() -> Sequence[CatalogSeed]:
    return (SEED,)
