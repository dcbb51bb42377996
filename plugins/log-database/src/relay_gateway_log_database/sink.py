"""The sink: writes batches, gives records and totals back."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, TypeVar

import asyncpg
from sqlalchemy import select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.plugin import (
    LogPage,
    LogQuery,
    PluginContext,
    UsageQuery,
    UsageReader,
    UsageRecord,
    UsageRow,
    UsageSink,
)
from relay_gateway_log_database.config import DatabaseSinkConfig, is_postgresql, locate
from relay_gateway_log_database.engine import (
    Writer,
    make_engine,
    make_writer,
    prepare_file,
    snapshot,
)
from relay_gateway_log_database.pages import page_of, page_statement
from relay_gateway_log_database.rows import record_of
from relay_gateway_log_database.schema import create_schema
from relay_gateway_log_database.summary import summarize
from relay_gateway_log_database.tables import usage_records

T = TypeVar("T")

UNAVAILABLE = (
    DBAPIError,
    PoolTimeoutError,
    asyncpg.PostgresError,
    asyncpg.InterfaceError,
    sqlite3.Error,
    OSError,
)
"""What drivers and the pool raise; the drivers' own come from connecting and writing."""


class DatabaseSink(UsageSink[DatabaseSinkConfig], UsageReader):
    """Usage records in SQLite or PostgreSQL. Several processes may use one database.

    Everything that needs the database raises :class:`StorageUnavailableError` when it cannot be
    asked, and :class:`ValueError` for a query that is wrong.
    """

    name: ClassVar[str] = "database"
    reads: ClassVar[bool] = True
    Config = DatabaseSinkConfig

    def __init__(self, config: DatabaseSinkConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self._engine: AsyncEngine | None = None
        self._writer: Writer | None = None
        self._running: set[asyncio.Task[Any]] = set()

    async def aopen(self) -> None:
        """Connects and makes the tables where they are missing; may be tried again."""
        await self.aclose()
        await self._complete(self._open(locate(self.config, self.context)))

    async def aclose(self) -> None:
        """Closes all connections, once what still runs on them has ended."""
        await asyncio.gather(*self._running, return_exceptions=True)
        writer, self._writer = self._writer, None
        engine, self._engine = self._engine, None
        if writer is not None:
            await writer.aclose()
        if engine is not None:
            await engine.dispose()

    async def write(self, records: Sequence[UsageRecord]) -> None:
        """Stores a batch in one transaction; records that are there already stay as they are."""
        await self._complete(self._write(records))

    async def get(self, request_id: str) -> UsageRecord | None:
        """One record, or ``None``."""
        return await self._complete(self._get(request_id))

    async def query(self, query: LogQuery) -> LogPage:
        """A page of records, newest first; at most 1000."""
        return await self._complete(self._query(query))

    async def summarize(self, query: UsageQuery) -> Sequence[UsageRow]:
        """Totals per group, largest number of requests first."""
        return await self._complete(self._summarize(query))

    async def _complete(self, work: Coroutine[Any, Any, T]) -> T:
        """Lets ``work`` end by itself when the wait for it is cancelled.

        A connection of SQLite that is left in the middle of a statement keeps its lock, and every
        later write waits for it.
        """
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def _open(self, url: str) -> None:
        with _unavailable():
            if not is_postgresql(url):
                await self.context.run_blocking(prepare_file, url)
            engine = make_engine(url)
            try:
                await create_schema(engine)
                self._writer = await make_writer(engine, self.context)
            except BaseException:
                await engine.dispose()
                raise
        self._engine = engine

    async def _write(self, records: Sequence[UsageRecord]) -> None:
        with _unavailable():
            await _opened(self._writer).write(records)

    async def _get(self, request_id: str) -> UsageRecord | None:
        if "\0" in request_id:
            return None
        wanted = select(usage_records.c.record).where(usage_records.c.request_id == request_id)
        with _unavailable():
            async with _opened(self._engine).connect() as connection:
                text = await connection.scalar(wanted)
        return None if text is None else record_of(text)

    async def _query(self, query: LogQuery) -> LogPage:
        engine = _opened(self._engine)
        with _unavailable():
            async with engine.connect() as connection:
                rows = await connection.execute(page_statement(query, engine.dialect.name))
                return page_of(rows.all(), query.limit)

    async def _summarize(self, query: UsageQuery) -> Sequence[UsageRow]:
        with _unavailable():
            async with snapshot(_opened(self._engine)) as connection:
                return await summarize(connection, query)


def _opened(part: T | None) -> T:
    if part is None:
        raise StorageUnavailableError(
            "the usage database is not open: see `relay-gateway plugins list`"
        )
    return part


@contextmanager
def _unavailable() -> Iterator[None]:
    try:
        yield
    except UNAVAILABLE as error:
        cause = getattr(error, "orig", None) or error
        raise StorageUnavailableError(
            f"the usage database cannot be asked right now ({type(cause).__name__}): check that "
            "it runs and what [usage_sinks.database] url says"
        ) from error
