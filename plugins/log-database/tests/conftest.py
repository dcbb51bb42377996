"""A sink on each database, empty for every test."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.postgres import PostgresServer
from relay_gateway_log_database import DatabaseSink, DatabaseSinkConfig
from relay_gateway_log_database.config import USAGE_FILE

EMPTY = "; ".join(
    f"DELETE FROM {table}" for table in ("usage_rows", "usage_hourly", "usage_daily", "usage_names")
)


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
        "SET client_min_messages = error; DROP SCHEMA public CASCADE; CREATE SCHEMA public", url=url
    )
    return url


async def make_tables(directory: Path, database_url: str) -> None:
    context = plugin_context(directory, plugin="database", database_url=database_url)
    sink = DatabaseSink(DatabaseSinkConfig(), context)
    await sink.aopen()
    await sink.aclose()
    await context.aclose()


def make_tables_in_a_thread(directory: Path, database_url: str) -> None:
    """For fixtures of a session, which have no event loop."""
    with ThreadPoolExecutor() as threads:
        threads.submit(asyncio.run, make_tables(directory, database_url)).result()


@pytest.fixture(scope="session")
def file_with_tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("tables")
    make_tables_in_a_thread(directory, "sqlite:///unused")
    return directory / USAGE_FILE


@pytest.fixture(scope="session")
def database_with_tables(postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> str:
    url = postgres.create_database()
    make_tables_in_a_thread(tmp_path_factory.mktemp("unused"), url)
    return url


@pytest.fixture(params=["sqlite", "postgresql"])
def tables_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The same with empty tables, which are there in a tenth of the time that making them takes."""
    if request.param == "sqlite":
        shutil.copy(request.getfixturevalue("file_with_tables"), tmp_path / USAGE_FILE)
        return f"sqlite:///{tmp_path / 'relay.sqlite3'}"
    url: str = request.getfixturevalue("database_with_tables")
    server: PostgresServer = request.getfixturevalue("postgres")
    server.execute(EMPTY, url=url)
    return url


@pytest.fixture
async def sink(tables_url: str, tmp_path: Path) -> AsyncIterator[DatabaseSink]:
    """An open sink without any record."""
    context = plugin_context(tmp_path, plugin="database", database_url=tables_url)
    sink = DatabaseSink(DatabaseSinkConfig(), context)
    await sink.aopen()
    yield sink
    await sink.aclose()
    await context.aclose()
