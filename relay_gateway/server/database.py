"""The database of the settings: its connections, its catalog, its schema."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway import storage
from relay_gateway.settings import Settings
from relay_gateway.storage import CatalogStore


@asynccontextmanager
async def open_engine(settings: Settings) -> AsyncIterator[AsyncEngine]:
    """The database of the settings; nothing is connected yet."""
    engine = storage.create_engine(settings.database_url)
    try:
        yield engine
    finally:
        await engine.dispose()


@asynccontextmanager
async def open_store(settings: Settings) -> AsyncIterator[CatalogStore]:
    """The catalog in the database of the settings."""
    async with open_engine(settings) as engine:
        yield CatalogStore(engine)


async def migrate(settings: Settings) -> str:
    """Brings the database to the schema of this version; returns its revision."""
    return await storage.migrate(settings.database_url)
