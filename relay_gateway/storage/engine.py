"""The database engine: one address syntax for operators, one behaviour on SQLite and PostgreSQL."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import URL, Connection, event, make_url
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from relay_gateway.errors import SettingsError, StorageUnavailableError

BUSY_SECONDS = 5
"""How long a write waits for another, a call for a connection, a connect for an answer."""
COMMAND_SECONDS = 30
POOL_SIZE = 5
PORT = 5432
WRITABLE = "read-write"
_TARGET = "target_session_attrs"
_SEVERAL = re.compile(r"(postgres(?:ql)?://(?:[^/?]*@)?)([^/?@]+,[^/?@]+)(.*)", re.DOTALL)
_READ_ONLY = "25006"
_WRITES = "relay_writes"


def create_engine(database_url: str) -> AsyncEngine:
    """An engine for ``sqlite:///PATH`` or ``postgresql://…``; nothing is connected yet. Of several
    servers (``postgresql://USER@A:5432,B:5432/NAME``) it uses the one that takes writes.

    Raises :class:`SettingsError` for an address of another kind. The caller disposes of the engine.
    """
    url = _parse(database_url)
    if url.get_backend_name() == "sqlite":
        engine = create_async_engine(
            url.set(drivername="sqlite+aiosqlite"),
            hide_parameters=True,
            pool_size=POOL_SIZE,
            json_deserializer=msgspec.json.decode,
        )
        event.listen(engine.sync_engine, "do_connect", _check_sqlite_file)
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        event.listen(engine.sync_engine, "begin", _begin_sqlite)
        event.listen(engine.sync_engine, "invalidate", _undo_sqlite)
        return engine
    engine = create_async_engine(
        _asyncpg_url(url),
        # Error texts would otherwise quote the values of a failed write, sealed ones included.
        hide_parameters=True,
        json_deserializer=msgspec.json.decode,
        pool_size=POOL_SIZE,
        pool_timeout=BUSY_SECONDS,
        pool_pre_ping=True,
        connect_args={"timeout": BUSY_SECONDS, "command_timeout": COMMAND_SECONDS},
    )
    event.listen(engine.sync_engine, "handle_error", _leave_read_only_server)
    return engine


def session_target(database_url: str) -> str | None:
    """Which of several servers an address means: the one that takes writes, unless it says
    otherwise; ``None`` for an address of one server."""
    return WRITABLE if _SEVERAL.match(database_url) and _TARGET not in database_url else None


def _parse(database_url: str) -> URL:
    try:
        url = _parse_servers(database_url)
    except (ArgumentError, ValueError):
        raise SettingsError(
            "the database address cannot be read; write sqlite:///PATH or postgresql://USER@HOST/NAME"
        ) from None
    if url.drivername not in ("sqlite", "postgresql", "postgres"):
        raise SettingsError(
            f"the database address begins with {url.drivername!r}; "
            "write sqlite:///PATH or postgresql://USER@HOST/NAME"
        )
    if url.drivername == "sqlite" and not url.database:
        raise SettingsError("the database address names no file; write sqlite:///PATH")
    return url


def _parse_servers(database_url: str) -> URL:
    """An address that may name several servers, as libpq and asyncpg take it: ``A:1,B:2``."""
    several = _SEVERAL.match(database_url)
    if several is None:
        return make_url(database_url)
    before, servers, after = several.groups()
    places = [place if ":" in place else f"{place}:{PORT}" for place in servers.split(",")]
    url = make_url(before + after).update_query_pairs([("host", place) for place in places])
    target = session_target(database_url)
    return url.update_query_dict({_TARGET: target}) if target else url


def _asyncpg_url(url: URL) -> URL:
    """The address with libpq's ``sslmode`` under the name that asyncpg has for it."""
    query: dict[str, Any] = dict(url.query)
    if "sslmode" in query:
        query["ssl"] = query.pop("sslmode")
    return url.set(drivername="postgresql+asyncpg", query=query)


def _check_sqlite_file(_dialect: object, _record: object, arguments: list[Any], _: object) -> None:
    """Makes an absent file, readable by nobody else; says what is wrong with one of no use.

    The driver would not: its worker thread outlives the failed attempt. An existing file must not
    be opened here, because closing it would drop the locks that SQLite holds on it in this process.
    """
    path = Path(arguments[0])
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        if not (path.is_file() and os.access(path, os.R_OK | os.W_OK)):
            raise StorageUnavailableError(
                f"the database {path} is no file that can be read and written"
            ) from None
    except OSError as error:
        raise StorageUnavailableError(
            f"the database file {path} cannot be made: {error.strerror}"
        ) from error


def _prepare_sqlite(connection: Any, _record: object) -> None:
    # The driver must not begin transactions by itself: it would begin them as readers.
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in (
        f"busy_timeout = {BUSY_SECONDS * 1000}",
        "foreign_keys = ON",
        "synchronous = FULL",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    # A reader that turns writer half-way fails at once instead of waiting for its turn.
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _undo_sqlite(connection: Any, _record: object, _error: BaseException | None) -> None:
    """Ends the transaction of a call that was cancelled, before its connection is closed.

    SQLite keeps a closed connection, and the lock that others wait for, until the last statement
    is let go of; the one that ran has a result that nobody has, until the garbage collector comes.
    """
    with suppress(sqlite3.Error):
        connection.rollback()


def _leave_read_only_server(context: ExceptionContext) -> None:
    """Has all connections made anew after a write that a server refused for being a standby now:
    another one, at the same address or the next, has taken over."""
    if getattr(context.original_exception, "sqlstate", None) == _READ_ONLY:
        context.is_disconnect = True


@asynccontextmanager
async def reading(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A transaction that sees one state of the database from its first to its last statement.

    Raises :class:`StorageUnavailableError` when the database cannot be asked.
    """
    with storage_failures():
        async with engine.connect() as connection:
            if engine.dialect.name == "postgresql":
                await connection.execution_options(isolation_level="REPEATABLE READ")
            async with connection.begin():
                yield connection


@asynccontextmanager
async def writing(engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
    """A transaction that is committed at the end of the block and undone by any exception.

    Raises :class:`StorageUnavailableError` when the database cannot be asked.
    """
    with storage_failures():
        async with engine.connect() as connection:
            await connection.execution_options(**{_WRITES: True})
            async with connection.begin():
                yield connection


@contextmanager
def storage_failures() -> Iterator[None]:
    """Turns what drivers raise about an absent, slow or unsuitable database into one error."""
    try:
        yield
    except IntegrityError:
        raise
    except ProgrammingError as error:
        raise StorageUnavailableError(
            "the database does not have the tables of this version; run `relay-gateway migrate`"
        ) from error
    except (DBAPIError, PoolTimeoutError, OSError, TimeoutError) as error:
        raise StorageUnavailableError(
            f"the database cannot be asked right now ({_cause(error)}); the call can be repeated"
        ) from error


def _cause(error: BaseException) -> str:
    original = error.orig if isinstance(error, DBAPIError) else error
    return type(original).__name__
