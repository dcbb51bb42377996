"""Usage records in one database: how it is opened, and what is done to keep it in order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Protocol

from sqlalchemy import Table, delete
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.plugin import PluginContext, UsageRecord
from relay_gateway_log_database import expiry
from relay_gateway_log_database.config import DatabaseSinkConfig, first_day, is_postgresql
from relay_gateway_log_database.engine import (
    CONNECT_SECONDS,
    make_engine,
    prepare_file,
)
from relay_gateway_log_database.legacy import move_some
from relay_gateway_log_database.rollups import VIEWS
from relay_gateway_log_database.schema import create_schema
from relay_gateway_log_database.sqlite_file import SqliteFile
from relay_gateway_log_database.sqlite_writer import SqliteWriter
from relay_gateway_log_database.tables import (
    DAY_US,
    SCHEMA_VERSION,
    metadata,
    usage_daily,
    usage_hourly,
    usage_names,
    usage_rows,
    usage_schema,
)
from relay_gateway_log_database.upgrades import upgrade
from relay_gateway_log_database.upkeep import Step

PAGE_BYTES = 4096
NAME_DAYS = 2
"""Names are kept longer than what refers to them, for clocks that differ."""


class UsageStore(Protocol):
    """One of the databases, open."""

    engine: AsyncEngine

    @property
    def steps(self) -> tuple[Step, ...]:
        """What is to be done in the background, in this order."""

    async def write(self, records: Sequence[UsageRecord]) -> None:
        """Stores a batch in one transaction; records that are there already stay as they are."""

    async def aclose(self) -> None:
        """Closes all connections."""


async def open_usage(url: str, config: DatabaseSinkConfig, context: PluginContext) -> UsageStore:
    """Connects to the database at ``url`` and makes its tables where they are missing."""
    if not is_postgresql(url):
        await context.run_blocking(prepare_file, url)
    engine = make_engine(url)
    try:
        await create_schema(engine, metadata, usage_schema, SCHEMA_VERSION, PAGE_BYTES, upgrade)
        if not is_postgresql(url):
            file = await SqliteFile.open(engine.url.database or "", CONNECT_SECONDS, context)
            return SqliteUsage(engine, file, config, context)
        from relay_gateway_log_database.postgresql_usage import PostgresqlUsage

        return await PostgresqlUsage.open(engine, config, context)
    except BaseException:
        await engine.dispose()
        raise


class SqliteUsage:
    """A file."""

    def __init__(
        self,
        engine: AsyncEngine,
        file: SqliteFile,
        config: DatabaseSinkConfig,
        context: PluginContext,
    ) -> None:
        self.engine = engine
        self.write = SqliteWriter(file, context).write
        self._file = file
        self._config = config
        self._clock = context.clock

    @property
    def steps(self) -> tuple[Step, ...]:
        """What is to be done in the background, in this order."""
        return (self._move, self._expire, self._forget, self._rebuild, self._give_back)

    async def aclose(self) -> None:
        """Closes all connections; where they are the last ones, SQLite tidies its files up."""
        await self._file.aclose()
        await self.engine.dispose()

    async def _move(self) -> bool:
        return await move_some(self.engine, self.write) > 0

    async def _expire(self) -> bool:
        days = self._config.retention_days
        if days is None:
            return False
        before = first_day(self._clock.time(), days) * DAY_US
        step = partial(expiry.delete_some, table=usage_rows.name, key="started_us", before=before)
        return await self._file.change(step) > 0

    async def _forget(self) -> bool:
        await forget(self.engine, self._config, self._clock.time())
        return False

    async def _rebuild(self) -> bool:
        await self._file.change(expiry.rebuild)
        return False

    async def _give_back(self) -> bool:
        return await self._file.change(expiry.give_back) > 0


async def forget(engine: AsyncEngine, config: DatabaseSinkConfig, now: float) -> None:
    """Deletes sums that are no longer kept, and names that nothing refers to any more."""
    sums, rows = config.rollup_retention_days, config.retention_days
    if sums is None or rows is None:
        return
    first = first_day(now, sums)
    for view in range(len(VIEWS)):
        for rollup, before in ((usage_hourly, 24 * first), (usage_daily, first)):
            await _delete(engine, rollup, view, before)
    oldest = first - NAME_DAYS
    async with engine.begin() as connection:
        await connection.execute(delete(usage_names).where(usage_names.c.used_on < oldest))


async def _delete(engine: AsyncEngine, rollup: Table, view: int, before: int) -> None:
    # One view at a time: the writer of SQLite waits meanwhile.
    async with engine.begin() as connection:
        await connection.execute(
            delete(rollup).where(rollup.c.view == view, rollup.c.step < before)
        )
