"""Makes the tables where they are missing, whoever else does the same at that moment."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeAlias

from sqlalchemy import Index, MetaData, Table, select, text
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from relay_gateway.errors import PluginLoadError
from relay_gateway_log_database.engine import prepare_sqlite

ADVISORY_LOCK = 0x72656C6179_7573  # "relayus"


Upgrade: TypeAlias = Callable[[AsyncConnection, int], Awaitable[None]]
"""Brings what tables of an older version hold to this one."""


async def create_schema(
    engine: AsyncEngine,
    metadata: MetaData,
    versions: Table,
    version: int,
    page_bytes: int,
    upgrade: Upgrade | None = None,
) -> None:
    """Brings the database to this plugin's version of the tables of ``metadata``; ``upgrade`` is
    called with the version before, when all tables are there.

    Raises :class:`PluginLoadError` when a newer version of the plugin has already changed them.
    """
    if engine.dialect.name == "sqlite":
        await prepare_sqlite(engine, page_bytes)
    else:
        _give_options(metadata)
    async with engine.begin() as connection:
        await _lock(connection)
        # Before anything is made: tables of a newer plugin must stay as they are.
        await connection.run_sync(versions.create, checkfirst=True)
        found = await connection.scalar(select(versions.c.version))
        if found is not None and found > version:
            raise PluginLoadError(
                f"the tables of {versions.name} have version {found}, this plugin knows versions "
                f"up to {version}: install the relay-gateway-log-database that made them"
            )
        await connection.run_sync(metadata.create_all)
        if found is None:
            await connection.execute(versions.insert().values(id=1, version=version))
        elif found < version:
            if upgrade is not None:
                await upgrade(connection, found)
            await connection.execute(versions.update().values(version=version))


def _give_options(metadata: MetaData) -> None:
    for table in metadata.tables.values():
        items: list[Table | Index] = [table, *table.indexes]
        for item in items:
            item.dialect_options["postgresql"].update(item.info.get("postgresql", {}))


async def _lock(connection: AsyncConnection) -> None:
    """Lets one process at a time past, until its transaction ends."""
    if connection.dialect.name == "postgresql":
        await connection.execute(text(f"SELECT pg_advisory_xact_lock({ADVISORY_LOCK})"))
    else:
        await connection.exec_driver_sql("BEGIN IMMEDIATE")
