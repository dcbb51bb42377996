"""Usage records in PostgreSQL; imported only where that is the database."""

from __future__ import annotations

from typing import Self

from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.plugin import PluginContext
from relay_gateway_log_database.config import DatabaseSinkConfig
from relay_gateway_log_database.engine import driver_of
from relay_gateway_log_database.legacy import move_some
from relay_gateway_log_database.partitions import Partitions
from relay_gateway_log_database.postgresql_writer import PostgresqlWriter
from relay_gateway_log_database.tables import usage_rows
from relay_gateway_log_database.upkeep import Step
from relay_gateway_log_database.usage_store import forget


class PostgresqlUsage:
    """A database of a server."""

    def __init__(
        self, engine: AsyncEngine, config: DatabaseSinkConfig, context: PluginContext
    ) -> None:
        self.engine = engine
        self._config = config
        self._clock = context.clock
        self._days = Partitions(usage_rows.name, config.retention_days, context.clock)
        self.write = PostgresqlWriter(engine, context, self._days).write

    @classmethod
    async def open(
        cls, engine: AsyncEngine, config: DatabaseSinkConfig, context: PluginContext
    ) -> Self:
        """Takes over ``engine``, whose database has the tables, and makes the next days."""
        usage = cls(engine, config, context)
        await usage._make_ahead()
        return usage

    @property
    def steps(self) -> tuple[Step, ...]:
        """What is to be done in the background, in this order."""
        return (self._make_ahead, self._move, self._expire, self._forget)

    async def aclose(self) -> None:
        """Closes all connections."""
        await self.engine.dispose()

    async def _make_ahead(self) -> bool:
        async with driver_of(self.engine) as driver:
            await self._days.make_ahead(driver)
        return False

    async def _move(self) -> bool:
        return await move_some(self.engine, self.write) > 0

    async def _expire(self) -> bool:
        async with driver_of(self.engine) as driver:
            await self._days.expire(driver)
        return False

    async def _forget(self) -> bool:
        await forget(self.engine, self._config, self._clock.time())
        return False
