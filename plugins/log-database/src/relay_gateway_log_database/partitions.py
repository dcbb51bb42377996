"""Partitions of PostgreSQL tables: one per day of UTC, made ahead of the day, dropped whole.

A row outside of the days that are made lies in the partition for all others.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from relay_gateway.plugin import Clock
from relay_gateway_log_database.config import DAY_SECONDS, first_day
from relay_gateway_log_database.tables import DAY_US

AHEAD_DAYS = 2
"""Days made ahead of today. More need none: whoever writes makes its days, too."""
PAST_DAYS = 400
"""Records of how long ago still get a partition where nothing is ever deleted."""
LOCK = 0x72656C6179_7064  # "relaypd"
PATIENCE = "SET LOCAL lock_timeout = '2s'"
"""A change of partitions that waits for a long query would hold up every other one behind it."""


class Partitions:
    """The days of one table. ``kept_days`` is how many are kept, ``None`` all of them.

    Methods take a connection of the driver; they wait for others that do the same.
    """

    def __init__(self, table: str, kept_days: int | None, clock: Clock) -> None:
        self.table = table
        self.kept_days = kept_days
        self._clock = clock
        self._made: set[int] = set()

    @property
    def today(self) -> int:
        """Days since 1970."""
        return int(self._clock.time()) // DAY_SECONDS

    @property
    def oldest(self) -> int:
        """The oldest day that is kept."""
        days = PAST_DAYS if self.kept_days is None else self.kept_days
        return first_day(self._clock.time(), days)

    async def prepare(self, driver: Any, times: Iterable[int]) -> None:
        """Makes the days of these times (in microseconds), where they are ordinary ones."""
        days = {started_us // DAY_US for started_us in times}
        for day in sorted(days - self._made):
            if self.oldest <= day <= self.today + AHEAD_DAYS:
                await self._make(driver, day)

    async def make_ahead(self, driver: Any) -> None:
        """Makes today and the next days."""
        for day in range(self.today, self.today + AHEAD_DAYS + 1):
            await self._make(driver, day)

    async def _make(self, driver: Any, day: int) -> None:
        """Makes one day, unless it is there; takes over what lies in the partition of all others.

        Not ``CREATE … PARTITION OF``, which would wait for every reader of the table.
        """
        name = self._name(day)
        async with driver.transaction():
            await driver.execute("SELECT pg_advisory_xact_lock($1)", LOCK)
            if await driver.fetchval("SELECT to_regclass($1)", name) is None:
                await driver.execute(PATIENCE)
                await self._create(driver, name, day)
        self._made.add(day)

    async def _create(self, driver: Any, name: str, day: int) -> None:
        first, last = day * DAY_US, (day + 1) * DAY_US
        period = f"started_us >= {first} AND started_us < {last}"
        await driver.execute(
            f"CREATE TABLE {name} (LIKE {self.table} INCLUDING ALL, CHECK ({period}))"
        )
        await driver.execute(
            f"WITH moved AS (DELETE FROM {self.table}_other WHERE {period} RETURNING *) "  # noqa: S608
            f"INSERT INTO {name} SELECT * FROM moved"
        )
        await driver.execute(
            f"ALTER TABLE {self.table} ATTACH PARTITION {name} FOR VALUES FROM ({first})"
            f" TO ({last})"
        )

    async def expire(self, driver: Any) -> int:
        """Drops the days that are no longer kept; returns how many."""
        if self.kept_days is None:
            return 0
        expired = [day for day in await self._days(driver) if day < self.oldest]
        for day in expired:
            async with driver.transaction():
                await driver.execute(PATIENCE)
                await driver.execute(f"DROP TABLE IF EXISTS {self._name(day)}")
        await driver.execute(
            f"DELETE FROM {self.table}_other WHERE started_us < $1",  # noqa: S608
            self.oldest * DAY_US,
        )
        return len(expired)

    async def _days(self, driver: Any) -> list[int]:
        found = await driver.fetch(
            "SELECT child.relname FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid "
            "WHERE inhparent = to_regclass($1)",
            self.table,
        )
        days = []
        for (name,) in found:
            with contextlib.suppress(ValueError):  # the partition of all others
                moment = datetime.strptime(name.rpartition("_")[2], "%Y%m%d").replace(tzinfo=UTC)
                days.append(int(moment.timestamp()) // DAY_SECONDS)
        return sorted(days)

    def _name(self, day: int) -> str:
        return f"{self.table}_{datetime.fromtimestamp(day * DAY_SECONDS, UTC):%Y%m%d}"
