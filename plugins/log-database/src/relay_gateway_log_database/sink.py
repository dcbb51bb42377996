"""The sink: writes batches, gives records and totals back, and keeps its tables in order."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar, TypeVar

from sqlalchemy.ext.asyncio import AsyncConnection

from relay_gateway.plugin import (
    LogPage,
    LogQuery,
    PluginContext,
    SeriesQuery,
    UsagePoint,
    UsageQuery,
    UsageReader,
    UsageRecord,
    UsageRow,
    UsageSink,
)
from relay_gateway_log_database.answers import Answers
from relay_gateway_log_database.config import (
    USAGE_FILE,
    DatabaseSinkConfig,
    first_day,
    locate,
)
from relay_gateway_log_database.corrections import correct
from relay_gateway_log_database.engine import snapshot
from relay_gateway_log_database.names import Texts
from relay_gateway_log_database.opening import Opening
from relay_gateway_log_database.pages import read_one, read_page
from relay_gateway_log_database.tables import DAY_US
from relay_gateway_log_database.usage_store import UsageStore, open_usage

SECTION = "usage_sinks.database"
T = TypeVar("T")


class DatabaseSink(UsageSink[DatabaseSinkConfig], UsageReader):
    """Usage records in SQLite or PostgreSQL. Several processes may use one database.

    Everything that needs the database raises :class:`StorageUnavailableError` when it cannot be
    asked, and :class:`ValueError` for a query that is wrong.
    """

    name: ClassVar[str] = "database"
    reads: ClassVar[bool] = True
    corrects: ClassVar[bool] = True
    batch_records = 2000  # many of them change the same sums, each of which is written once
    batch_seconds = 0.2  # a batch of four times as many costs two thirds for each of them
    Config = DatabaseSinkConfig

    def __init__(self, config: DatabaseSinkConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self._texts = Texts()
        self._answers = Answers(self._texts)
        self._database = Opening(SECTION, self._open, context.logger)

    async def aopen(self) -> None:
        """Connects and makes the tables where they are missing; may be tried again."""
        await self._database.aopen()

    async def aclose(self) -> None:
        """Closes all connections, once what still runs on them has ended."""
        await self._database.aclose()

    async def write(self, records: Sequence[UsageRecord]) -> None:
        """Stores a batch in one transaction; records that are there already stay as they are."""
        await self._database.complete(self._write(records))

    async def get(self, request_id: str) -> UsageRecord | None:
        """One record, or ``None``."""
        return await self._read(lambda connection: read_one(connection, self._texts, request_id))

    async def query(self, query: LogQuery) -> LogPage:
        """A page of records, newest first; at most 1000."""
        return await self._read(lambda connection: read_page(connection, self._texts, query))

    async def summarize(self, query: UsageQuery) -> Sequence[UsageRow]:
        """Totals per group, largest number of requests first."""
        rows_from = self._rows_from()
        return await self._read(
            lambda connection: self._answers.summarize(connection, query, rows_from)
        )

    async def timeseries(self, query: SeriesQuery) -> Sequence[UsagePoint]:
        """Totals per step and group, oldest step first."""
        rows_from = self._rows_from()
        return await self._read(
            lambda connection: self._answers.timeseries(connection, query, rows_from)
        )

    async def correct(self, records: Sequence[UsageRecord]) -> int:
        """Gives stored records the price of ``records``, in one transaction with all totals."""
        return await self._database.complete(self._correct(records))

    def _rows_from(self) -> int | None:
        days = self.config.retention_days
        return None if days is None else first_day(self.context.clock.time(), days) * DAY_US

    async def _open(self) -> UsageStore:
        url = locate(self.config, self.context, USAGE_FILE)
        return await open_usage(url, self.config, self.context)

    async def _write(self, records: Sequence[UsageRecord]) -> None:
        await self._database.store.write(records)

    async def _correct(self, records: Sequence[UsageRecord]) -> int:
        now_us = int(self.context.clock.time() * 1e6)
        return await correct(self._database.store.engine, records, now_us)

    async def _read(self, ask: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        return await self._database.complete(self._asked(ask))

    async def _asked(self, ask: Callable[[AsyncConnection], Awaitable[T]]) -> T:
        async with snapshot(self._database.store.engine) as connection:
            return await ask(connection)
