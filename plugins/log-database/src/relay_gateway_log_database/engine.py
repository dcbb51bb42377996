"""Connections to either database, and how to read without seeing half a change."""

from __future__ import annotations

import asyncio
import os
import random
import sqlite3
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import URL, make_url
from sqlalchemy.exc import DBAPIError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from relay_gateway.errors import PluginLoadError, StorageUnavailableError
from relay_gateway_log_database.config import is_postgresql

CONNECT_SECONDS = 10.0
STATEMENT_SECONDS = 60.0
POOL_SIZE = 4
WAL_ATTEMPTS = 20
WAL_PAUSE_SECONDS = 0.05
OLDEST_SQLITE = (3, 35, 0)
"""The first that has ``RETURNING`` and ``MATERIALIZED``."""

UNAVAILABLE = (DBAPIError, PoolTimeoutError, sqlite3.Error, OSError)
"""What the pool and the driver of SQLite raise; a driver's own come from connecting and writing."""


def make_engine(url: str) -> AsyncEngine:
    """An engine for ``url``; connects on first use. Statement parameters never show in errors."""
    if is_postgresql(url):
        return _postgresql(url)
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        raise PluginLoadError(
            f"usage in SQLite needs its library from version 3.35 on, Python has "
            f"{sqlite3.sqlite_version}: update it, or let `url` name a PostgreSQL database"
        )
    return _sqlite(make_url(url).set(drivername="sqlite+aiosqlite"))


def _postgresql(url: str) -> AsyncEngine:
    import asyncpg

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


def prepare_file(url: str) -> None:
    """Makes the file of a SQLite ``url``, readable by its owner only, with its directory."""
    path = Path(make_url(url).database or "")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))


async def prepare_sqlite(engine: AsyncEngine, page_bytes: int) -> None:
    """Sets the size of pages, has deleted pages given back, and lets readers go on while somebody
    writes; the file remembers all three."""
    for attempt in range(1, WAL_ATTEMPTS + 1):
        try:
            async with engine.connect() as connection:
                await connection.exec_driver_sql(f"PRAGMA page_size={page_bytes}")
                await connection.exec_driver_sql("PRAGMA auto_vacuum=INCREMENTAL")
                await connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        except OperationalError:
            # Processes that switch a new file at the same moment refuse each other at once.
            if attempt == WAL_ATTEMPTS:
                raise
            await asyncio.sleep(WAL_PAUSE_SECONDS * random.random())  # noqa: S311 - only spreads
        else:
            return


@asynccontextmanager
async def snapshot(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A connection whose statements all see the same state of the database."""
    async with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            await connection.execution_options(isolation_level="REPEATABLE READ")
        else:
            await connection.exec_driver_sql("BEGIN")
        yield connection


@asynccontextmanager
async def driver_of(engine: AsyncEngine) -> AsyncIterator[Any]:
    """A connection of the driver of PostgreSQL."""
    async with engine.connect() as connection:
        yield (await connection.get_raw_connection()).driver_connection


@contextmanager
def unavailable(what: str) -> Iterator[None]:
    """Raises what the drivers raise as :class:`StorageUnavailableError`, about the section
    ``what``."""
    try:
        yield
    except Exception as error:
        if not isinstance(error, (*UNAVAILABLE, *_postgresql_errors())):
            raise
        cause = getattr(error, "orig", None) or error
        raise StorageUnavailableError(
            f"the database of [{what}] cannot be asked right now ({type(cause).__name__}): check "
            "that it runs and what its url says"
        ) from error


def _postgresql_errors() -> tuple[type[Exception], ...]:
    """What the driver of PostgreSQL raises: nothing where the engine did not need to load it."""
    driver = sys.modules.get("asyncpg")
    return (driver.PostgresError, driver.InterfaceError) if driver is not None else ()
