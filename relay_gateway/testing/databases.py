"""A control database of a test's own, in the form that the gateway expects."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.storage import create_engine, migrate


@asynccontextmanager
async def migrated(url: str) -> AsyncIterator[AsyncEngine]:
    """An engine on the database at ``url``, all of whose tables are there."""
    await migrate(url)
    engine = create_engine(url)
    try:
        yield engine
    finally:
        await engine.dispose()
