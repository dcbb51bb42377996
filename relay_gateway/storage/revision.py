"""The revision of the catalog: one number that grows by one with every write."""

from __future__ import annotations

from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from relay_gateway.storage.tables import catalog_revision

CHANNEL = "relay_catalog"
"""The PostgreSQL channel on which revisions are announced."""


async def current_revision(connection: AsyncConnection) -> int:
    """The number of writes so far."""
    result = await connection.execute(select(catalog_revision.c.revision))
    revision: int = result.scalar_one()
    return revision


async def next_revision(connection: AsyncConnection) -> int:
    """Begins a write: counts it, and waits for those that were first."""
    result = await connection.execute(
        update(catalog_revision)
        .values(revision=catalog_revision.c.revision + 1)
        .returning(catalog_revision.c.revision)
    )
    revision: int = result.scalar_one()
    return revision


async def announce(connection: AsyncConnection, revision: int) -> None:
    """Tells listening gateways of ``revision`` when the transaction commits; SQLite cannot."""
    if connection.dialect.name == "postgresql":
        await connection.execute(select(func.pg_notify(CHANNEL, str(revision))))
