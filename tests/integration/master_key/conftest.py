"""A migrated database, SQLite or PostgreSQL, for instances with different master keys."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.storage import create_engine, migrate
from relay_gateway.testing.sealing import Fleet


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/catalog.sqlite3"
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    await migrate(database_url)
    engine = create_engine(database_url)
    yield engine
    await engine.dispose()


@pytest.fixture
def fleet(engine: AsyncEngine, tmp_path: Path) -> Fleet:
    return Fleet(engine, tmp_path)
