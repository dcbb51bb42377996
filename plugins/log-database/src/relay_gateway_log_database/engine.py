"""What reads and what writes at an address, and how to read without seeing half a change."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import asyncpg
from sqlalchemy import URL, make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from relay_gateway.plugin import PluginContext, UsageRecord
from relay_gateway_log_database.config import is_postgresql
from relay_gateway_log_database.postgresql_writer import PostgresqlWriter
from relay_gateway_log_database.sqlite_writer import SqliteWriter

CONNECT_SECONDS = 10.0
STATEMENT_SECONDS = 60.0
POOL_SIZE = 4


class Writer(Protocol):
    """Stores batches in one of the databases."""

    async def write(self, records: Sequence[UsageRecord]) -> None:
        """Stores a batch in one transaction; records that are there already stay as they are."""

    async def aclose(self) -> None:
        """Releases what only the writer uses."""


def make_engine(url: str) -> AsyncEngine:
    """An engine for ``url``; connects on first use. Statement parameters never show in errors."""
    if is_postgresql(url):
        return _postgresql(url)
    return _sqlite(make_url(url).set(drivername="sqlite+aiosqlite"))


def _postgresql(url: str) -> AsyncEngine:
    async def connect() -> Any:
        # asyncpg reads the address itself: sockets, sslmode and the like as libpq has them.
        return await asyncpg.connect(
            url, timeout=CONNECT_SECONDS, command_timeout=STATEMENT_SECONDS
        )

    return create_async_engine(
        "postgresql+asyncpg://",
        async_creator=connect,
        pool_size=POOL_SIZE,
        max_overflow=0,
        pool_timeout=CONNECT_SECONDS,
        pool_pre_ping=True,
        hide_parameters=True,
    )


def _sqlite(url: URL) -> AsyncEngine:
    return create_async_engine(
        url,
        connect_args={"timeout": CONNECT_SECONDS},
        pool_size=POOL_SIZE,
        max_overflow=0,
        pool_timeout=CONNECT_SECONDS,
        hide_parameters=True,
    )


async def make_writer(engine: AsyncEngine, context: PluginContext) -> Writer:
    """What writes to the database of ``engine``, which has its tables already."""
    if engine.dialect.name == "postgresql":
        return PostgresqlWriter(engine)
    return await SqliteWriter.open(engine.url.database or "", CONNECT_SECONDS, context)


def prepare_file(url: str) -> None:
    """Makes the file of a SQLite ``url``, readable by its owner only, with its directory."""
    path = Path(make_url(url).database or "")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


@asynccontextmanager
async def snapshot(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A connection whose statements all see the same state of the database."""
    async with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            await connection.execution_options(isolation_level="REPEATABLE READ")
        else:
            await connection.exec_driver_sql("BEGIN")
        yield connection
