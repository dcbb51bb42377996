"""A sink on each database, and records to put into it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.postgres import PostgresServer
from relay_gateway_log_database import DatabaseSink, DatabaseSinkConfig
from relay_gateway_log_database.tables import usage_records


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The gateway's database, as ``RELAY_DATABASE_URL`` would say it."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'relay.sqlite3'}"
        return
    server: PostgresServer = request.getfixturevalue("postgres")
    url = server.create_database()
    yield url
    server.drop_database(url)


@pytest.fixture(scope="session")
def kept_database(postgres: PostgresServer) -> str:
    """A database for many tests, for making one takes longer than most of them."""
    return postgres.create_database()


@pytest.fixture(params=["sqlite", "postgresql"])
async def sink(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[DatabaseSink]:
    """An open sink without any record."""
    url = "sqlite:///unused"
    if request.param == "postgresql":
        url = request.getfixturevalue("kept_database")
    sink = DatabaseSink(DatabaseSinkConfig(), plugin_context(tmp_path, database_url=url))
    await sink.aopen()
    assert sink._engine is not None
    async with sink._engine.begin() as connection:
        await connection.execute(usage_records.delete())
    yield sink
    await sink.aclose()
    await sink.context.aclose()
