"""Payloads in one database: how it is opened, written and kept in order."""

from __future__ import annotations

import uuid
import zlib
from collections.abc import Sequence
from functools import partial
from typing import Protocol

import msgspec
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.plugin import PayloadRecord, PluginContext
from relay_gateway_log_database import expiry
from relay_gateway_log_database.config import DatabasePayloadsConfig, first_day, is_postgresql
from relay_gateway_log_database.engine import (
    CONNECT_SECONDS,
    driver_of,
    make_engine,
    prepare_file,
)
from relay_gateway_log_database.partitions import Partitions
from relay_gateway_log_database.payload_tables import (
    SCHEMA_VERSION,
    metadata,
    payload_records,
    payload_schema,
)
from relay_gateway_log_database.rows import checked_id, microseconds
from relay_gateway_log_database.schema import create_schema
from relay_gateway_log_database.sqlite_file import SqliteFile
from relay_gateway_log_database.tables import DAY_US
from relay_gateway_log_database.upkeep import Step

PAGE_BYTES = 16384
EXPIRED_ROWS = 100
"""Rows that are deleted in one step; each may have many pages."""
FAST = 3
"""Level of compression: a third of the time of the usual one, for a few per cent more space."""

Row = tuple[str, int, bytes]
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(PayloadRecord)

INSERT = (
    "INSERT INTO payload_records (request_id, started_us, record) "
    "VALUES ({}, {}, {}) ON CONFLICT DO NOTHING"
)


def row_of(record: PayloadRecord) -> Row:
    """The row of a record; meant for a thread. Raises :class:`ValueError` for a bad id or time."""
    return (
        checked_id(record.request_id),
        microseconds(record.started_at),
        zlib.compress(_encoder.encode(record), FAST),
    )


def record_of(record: bytes) -> PayloadRecord:
    """The record as it was written; meant for a thread."""
    return _decoder.decode(zlib.decompress(record))


class PayloadStore(Protocol):
    """One of the databases, open."""

    engine: AsyncEngine

    @property
    def steps(self) -> tuple[Step, ...]:
        """What is to be done in the background, in this order."""

    async def write(self, rows: Sequence[Row]) -> None:
        """Stores rows in one transaction; those that are there already stay as they are."""

    async def aclose(self) -> None:
        """Closes all connections."""


async def open_payloads(
    url: str, config: DatabasePayloadsConfig, context: PluginContext
) -> PayloadStore:
    """Connects to the database at ``url`` and makes its tables where they are missing."""
    if not is_postgresql(url):
        await context.run_blocking(prepare_file, url)
    engine = make_engine(url)
    try:
        await create_schema(engine, metadata, payload_schema, SCHEMA_VERSION, PAGE_BYTES)
        if is_postgresql(url):
            store = PostgresqlPayloads(engine, config, context)
            await store.make_ahead()
            return store
        file = await SqliteFile.open(engine.url.database or "", CONNECT_SECONDS, context)
        return SqlitePayloads(engine, file, config, context)
    except BaseException:
        await engine.dispose()
        raise


class SqlitePayloads:
    """A file."""

    def __init__(
        self,
        engine: AsyncEngine,
        file: SqliteFile,
        config: DatabasePayloadsConfig,
        context: PluginContext,
    ) -> None:
        self.engine = engine
        self._file = file
        self._days = config.retention_days
        self._clock = context.clock

    @property
    def steps(self) -> tuple[Step, ...]:
        """What is to be done in the background, in this order."""
        return (self._expire, self._give_back)

    async def write(self, rows: Sequence[Row]) -> None:
        """Stores rows in one transaction; those that are there already stay as they are."""
        values = [(uuid.UUID(request_id).bytes, *rest) for request_id, *rest in rows]
        insertion = INSERT.format("?", "?", "?")
        await self._file.change(lambda connection: connection.executemany(insertion, values))

    async def aclose(self) -> None:
        """Closes all connections; where they are the last ones, SQLite tidies its files up."""
        await self._file.aclose()
        await self.engine.dispose()

    async def _expire(self) -> bool:
        before = first_day(self._clock.time(), self._days) * DAY_US
        step = partial(
            expiry.delete_some,
            table=payload_records.name,
            key="started_us",
            before=before,
            most=EXPIRED_ROWS,
        )
        return await self._file.change(step) > 0

    async def _give_back(self) -> bool:
        return await self._file.change(expiry.give_back) > 0


class PostgresqlPayloads:
    """A database of a server."""

    def __init__(
        self, engine: AsyncEngine, config: DatabasePayloadsConfig, context: PluginContext
    ) -> None:
        self.engine = engine
        self._days = Partitions(payload_records.name, config.retention_days, context.clock)

    @property
    def steps(self) -> tuple[Step, ...]:
        """What is to be done in the background, in this order."""
        return (self.make_ahead, self._expire)

    async def write(self, rows: Sequence[Row]) -> None:
        """Stores rows in one transaction; those that are there already stay as they are."""
        # In one order, so that two instances with the same rows cannot wait for each other.
        async with driver_of(self.engine) as driver:
            await self._days.prepare(driver, (started_us for _, started_us, _ in rows))
            async with driver.transaction():
                await driver.executemany(INSERT.format("$1", "$2", "$3"), sorted(rows))

    async def aclose(self) -> None:
        """Closes all connections."""
        await self.engine.dispose()

    async def make_ahead(self) -> bool:
        """Makes the partitions of today and the next days."""
        async with driver_of(self.engine) as driver:
            await self._days.make_ahead(driver)
        return False

    async def _expire(self) -> bool:
        async with driver_of(self.engine) as driver:
            await self._days.expire(driver)
        return False


async def read_record(engine: AsyncEngine, request_id: str) -> bytes | None:
    """The stored record of one request, or ``None``."""
    wanted = select(payload_records.c.record).where(payload_records.c.request_id == request_id)
    async with engine.connect() as connection:
        record: bytes | None = await connection.scalar(wanted)
        return record
