"""What is done once before gateways are opened, or as soon as the database can be asked."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from importlib import import_module

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.plugin import CatalogSeed
from relay_gateway.registry import Plugins, Registry
from relay_gateway.server.database import migrate, open_store
from relay_gateway.server.first_start import seed_catalog
from relay_gateway.server.guards import select_guards
from relay_gateway.server.last_good import LastGoodFile
from relay_gateway.server.watch import PATIENCE_SECONDS
from relay_gateway.settings import Settings

_log = logging.getLogger(__name__)


async def prepare(
    settings: Settings,
    registry: Registry,
    plugins: Plugins,
    environ: Mapping[str, str] = os.environ,
) -> bool:
    """What is done once before gateways are opened, however many there are: the configuration is
    checked, the database migrated, and an empty catalog seeded. ``plugins`` are not opened.

    Returns ``False`` when the database cannot be asked: gateways then do the rest when it can. An
    embedded database that cannot be used is an error, :class:`StorageUnavailableError`.
    """
    for name in settings.usage_logging.sinks:
        plugins.usage_sink(name)
    select_guards(settings.guarding.order, plugins)
    # A database file is there or it is not; what takes long is a slow disk, which is waited for.
    last_good = LastGoodFile(settings.data_dir, settings.master_key).exists
    patient = settings.database_file is not None or not last_good
    try:
        async with asyncio.timeout(None if patient else PATIENCE_SECONDS):
            await prepare_database(settings, registry.seeds, plugins, environ)
    except (StorageUnavailableError, TimeoutError) as error:
        if settings.database_file is not None:
            raise
        _log.error("starting without the database: %s", str(error) or "it does not answer")
        return False
    return True


async def prepare_database(
    settings: Settings,
    seeds: Sequence[CatalogSeed],
    plugins: Plugins,
    environ: Mapping[str, str] = os.environ,
) -> None:
    """Migrates the database and seeds an empty catalog; several processes may do so at once.

    Raises :class:`StorageUnavailableError`, and :class:`ConfigurationError` for a database of a
    newer version.
    """
    await migrate(settings)
    async with open_store(settings) as store:
        made = await seed_catalog(store, seeds, plugins.secret_backends, environ.get)
    for variable in made:
        _log.info("made a host key for %s", variable)


async def prepare_late(
    settings: Settings,
    seeds: Sequence[CatalogSeed],
    plugins: Plugins,
    environ: Mapping[str, str],
) -> None:
    """What :func:`prepare` could not do, by a gateway that serves already. Raises like it."""
    # While requests are served: importing this would hold them up.
    await asyncio.to_thread(import_module, "alembic.command")
    await prepare_database(settings, seeds, plugins, environ)
