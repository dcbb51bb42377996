"""Makes the tables where they are missing, whoever else does the same at that moment."""

from __future__ import annotations

import asyncio
import random

from sqlalchemy import select, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from relay_gateway.errors import PluginLoadError
from relay_gateway_log_database.tables import SCHEMA_VERSION, metadata, usage_schema

ADVISORY_LOCK = 0x72656C6179_7573  # "relayus"
WAL_ATTEMPTS = 20
WAL_PAUSE_SECONDS = 0.05
PAGE_BYTES = 16384
"""Page of a new SQLite file: a row takes 2 KB, and of 4 KB pages a third stays empty."""


async def create_schema(engine: AsyncEngine) -> None:
    """Brings the database to this plugin's version of the tables.

    Raises :class:`PluginLoadError` when a newer version of the plugin has already changed them.
    """
    if engine.dialect.name == "sqlite":
        await _prepare_sqlite(engine)
    async with engine.begin() as connection:
        await _lock(connection)
        await connection.run_sync(metadata.create_all)
        found = await connection.scalar(select(usage_schema.c.version))
        if found is None:
            await connection.execute(usage_schema.insert().values(id=1, version=SCHEMA_VERSION))
        elif found > SCHEMA_VERSION:
            raise PluginLoadError(
                f"the usage tables have version {found}, this plugin knows versions up to "
                f"{SCHEMA_VERSION}: install the relay-gateway-log-database that made them"
            )


async def _lock(connection: AsyncConnection) -> None:
    """Lets one process at a time past, until its transaction ends."""
    if connection.dialect.name == "postgresql":
        await connection.execute(text(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})"))
    else:
        await connection.exec_driver_sql("BEGIN IMMEDIATE")


async def _prepare_sqlite(engine: AsyncEngine) -> None:
    """Sets the size of pages, and lets readers go on while somebody writes; the file remembers
    both."""
    for attempt in range(1, WAL_ATTEMPTS + 1):
        try:
            async with engine.connect() as connection:
                await connection.exec_driver_sql(f"PRAGMA page_size={PAGE_BYTES}")
                await connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        except OperationalError:
            # Processes that switch a new file at the same moment refuse each other at once.
            if attempt == WAL_ATTEMPTS:
                raise
            await asyncio.sleep(WAL_PAUSE_SECONDS * random.random())  # noqa: S311 - only spreads
        else:
            return
