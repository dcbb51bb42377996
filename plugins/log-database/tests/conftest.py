"""A sink on each database, empty for every test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.postgres import PostgresServer
from relay_gateway_log_database import DatabaseSink, DatabaseSinkConfig


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture(scope="session")
def kept_database(postgres: PostgresServer) -> str:
    """A database for many tests, for making one takes longer than most of them."""
    return postgres.create_database()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The gateway's database, as ``RELAY_DATABASE_URL`` would say it, without usage tables."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'relay.sqlite3'}"
    url: str = request.getfixturevalue("kept_database")
    server: PostgresServer = request.getfixturevalue("postgres")
    server.execute(
        "SET client_min_messages = error; DROP TABLE IF EXISTS usage_records, usage_schema", url=url
    )
    return url


@pytest.fixture
async def sink(database_url: str, tmp_path: Path) -> AsyncIterator[DatabaseSink]:
    """An open sink without any record."""
    context = plugin_context(tmp_path, plugin="database", database_url=database_url)
    sink = DatabaseSink(DatabaseSinkConfig(), context)
    await sink.aopen()
    yield sink
    await sink.aclose()
    await context.aclose()
