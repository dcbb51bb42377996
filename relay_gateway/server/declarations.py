"""The declared catalog for commands: plugins open, the database migrated, no running gateway."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

from relay_gateway.declarative.catalog import DeclaredCatalog
from relay_gateway.declarative.credentials import CredentialSources
from relay_gateway.registry import Registry
from relay_gateway.server.database import migrate, open_store
from relay_gateway.server.first_start import seed_catalog
from relay_gateway.server.plugin_instances import configure_plugins
from relay_gateway.settings import Settings


@asynccontextmanager
async def open_declared_catalog(
    settings: Settings, environ: Mapping[str, str] = os.environ, *, seeded: bool = True
) -> AsyncIterator[DeclaredCatalog]:
    """The catalog of the settings' database. An empty one gets what the plugins ship unless it is
    not to be ``seeded``."""
    registry = Registry.discover(enabled=settings.plugins.enabled)
    plugins = configure_plugins(settings, registry, environ)
    await migrate(settings)
    async with open_store(settings) as store:
        if seeded:
            await seed_catalog(store, registry.seeds, plugins.secret_backends, environ.get)
        await plugins.aopen()
        try:
            sources = CredentialSources(plugins.secret_backends, environ.get)
            yield DeclaredCatalog(store, plugins.providers, sources)
        finally:
            await plugins.aclose()
