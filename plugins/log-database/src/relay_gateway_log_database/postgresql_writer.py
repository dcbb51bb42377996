"""Writes batches to PostgreSQL: one transaction, rows by COPY, sums with one array per column."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from operator import attrgetter
from typing import Any

import asyncpg
import msgspec
from sqlalchemy import LargeBinary, Table
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.plugin import PluginContext, UsageRecord
from relay_gateway_log_database.names import Numbers, missing
from relay_gateway_log_database.partitions import Partitions
from relay_gateway_log_database.rollups import (
    COLUMNS as SUM_COLUMNS,
)
from relay_gateway_log_database.rollups import (
    KEYS,
    REPLACED,
    SHORTENED_EVERY,
    adding,
    long_histograms,
    replacing_histograms,
)
from relay_gateway_log_database.rows import COLUMNS, Rows, microseconds, names_in, slices
from relay_gateway_log_database.sums import (
    Key,
    Sum,
    Sums,
    daily,
    shortened_rows,
    steps_of,
    values_of,
)
from relay_gateway_log_database.tables import usage_daily, usage_hourly, usage_rows

ROWS = 50
"""Rows between which others may use the event loop: making them takes less than a millisecond."""
SUMS = 200
"""Sums of a statement, for the same reason."""
ATTEMPTS = 10
"""How often a batch is tried that others write as well; each time some of it is there."""

Position = tuple[int, str]
"""When a request began, in microseconds, and its id: the key of its row."""
_json = msgspec.json.Encoder()


_request_id = attrgetter("request_id")


class PostgresqlWriter:
    """Takes a connection of the engine's and speaks to its driver without SQLAlchemy, whose work
    per row costs more than the driver's."""

    def __init__(self, engine: AsyncEngine, context: PluginContext, partitions: Partitions) -> None:
        self._engine = engine
        self._numbers = Numbers(context.clock)
        self._partitions = partitions
        self._currency = 0
        self._batches = 0

    async def write(self, records: Sequence[UsageRecord]) -> None:
        """Stores a batch, all of it or nothing. Raises :class:`ValueError` for a bad time or id."""
        numbers = await self._numbered(names_in(records))
        ordered = _ordered(records)
        async with self._engine.connect() as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            await self._partitions.prepare(driver, (started for started, _ in ordered))
            async with driver.transaction():
                await self._add_up(driver, await self._copy(driver, ordered, numbers))

    async def _copy(
        self, driver: Any, records: dict[Position, UsageRecord], numbers: Mapping[str, int]
    ) -> Sums:
        """Adds rows for those ``records`` that have none yet, and gives the sums of these."""
        for _ in range(ATTEMPTS - 1):
            # Some are there already, which is rare: after an answer of the database was lost.
            # Whoever else writes the same ones may have more of them by the next attempt.
            with suppress(asyncpg.UniqueViolationError):
                return await self._copied(driver, records.values(), numbers)
            times, ids = zip(*records, strict=True)
            for known in await driver.fetch(FIND, ids, min(times), max(times)):
                records.pop((known["started_us"], str(known["request_id"])), None)
        return await self._copied(driver, records.values(), numbers)

    async def _copied(
        self, driver: Any, records: Iterable[UsageRecord], numbers: Mapping[str, int]
    ) -> Sums:
        sums = Sums(self._currency)
        async with driver.transaction():
            await driver.copy_records_to_table(
                usage_rows.name, records=_rows(records, Rows(numbers), sums), columns=COLUMNS
            )
        return sums

    async def _add_up(self, driver: Any, sums: Sums) -> None:
        self._currency = sums.currency
        self._batches += 1
        hourly = sums.hourly()
        for rollup, found in ((usage_hourly, hourly), (usage_daily, daily(hourly))):
            for part in slices(list(found.items()), SUMS):
                values = zip(*values_of(dict(part)), strict=True)
                await driver.execute(ADD[rollup.name], *_literals(rollup, SUM_COLUMNS, values))
            if self._batches % SHORTENED_EVERY == 0:
                await _shorten(driver, rollup, found)

    async def _numbered(self, names: Collection[str]) -> Mapping[str, int]:
        """The number of each name; they stay, whatever becomes of the batch that needs them."""
        day, known = self._numbers.today()
        for some in missing(names, known):
            async with self._engine.connect() as connection:
                driver: Any = (await connection.get_raw_connection()).driver_connection
                known.update(await driver.fetch(NUMBER, some, day))
        return {name: known[name] for name in names}

    async def aclose(self) -> None:
        """Nothing: the connections are the engine's."""


async def _shorten(driver: Any, rollup: Table, sums: Mapping[Key, Sum]) -> None:
    found = await driver.fetch(FIND_LONG[rollup.name], steps_of(sums))
    shortened = shortened_rows(found, sums)
    if shortened:
        values = zip(*shortened, strict=True)
        await driver.execute(SHORTEN[rollup.name], *_literals(rollup, REPLACED, values))


def _ordered(records: Iterable[UsageRecord]) -> dict[Position, UsageRecord]:
    """Each record once, in one order everywhere: then two instances with the same records cannot
    wait for each other."""
    ordered: dict[Position, UsageRecord] = {}
    for record in sorted(records, key=_request_id):
        ordered.setdefault((microseconds(record.started_at), record.request_id), record)
    return ordered


async def _rows(
    records: Iterable[UsageRecord], rows: Rows, sums: Sums
) -> AsyncIterator[tuple[object, ...]]:
    """The rows of ``records``, which are added to ``sums``."""
    for number, record in enumerate(records, start=1):
        row = rows.of(record)
        sums.add(row)
        yield row
        if number % ROWS == 0:
            await asyncio.sleep(0)


def _is_binary(column: Any) -> bool:
    return isinstance(column.type, LargeBinary)


def _literals(
    table: Table, columns: Sequence[str], values: Iterable[Sequence[Any]]
) -> list[str | Sequence[Any]]:
    """Arrays as text, but for those of bytes: the driver looks at each item of an array for longer
    than it takes to spell it."""
    return [
        some if _is_binary(table.c[name]) else f"{{{_json.encode(some)[1:-1].decode()}}}"
        for name, some in zip(columns, values, strict=True)
    ]


def _arrays(table: Table, columns: Sequence[str]) -> str:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    arrays = ", ".join(
        f"${place}::{'' if _is_binary(table.c[name]) else 'text::'}"
        f"{table.c[name].type.compile(dialect)}[]"
        for place, name in enumerate(columns, start=1)
    )
    return f"SELECT * FROM unnest({arrays})"  # noqa: S608 - names of types only


def _in_order(table: Table, columns: Sequence[str]) -> str:
    keys = ", ".join(str(place + 1) for place, name in enumerate(columns) if name in KEYS)
    return f"{_arrays(table, columns)} ORDER BY {keys}"


FIND = (
    "SELECT started_us, request_id FROM usage_rows "
    "WHERE request_id = ANY($1::uuid[]) AND started_us BETWEEN $2 AND $3"
)
ROLLUPS = (usage_hourly, usage_daily)
ADD = {one.name: adding(one, _in_order(one, SUM_COLUMNS), blob="bytea") for one in ROLLUPS}
FIND_LONG = {one.name: long_histograms(one, "(SELECT unnest($1::integer[]))") for one in ROLLUPS}
SHORTEN = {one.name: replacing_histograms(one, _in_order(one, REPLACED)) for one in ROLLUPS}
NUMBER = (
    "INSERT INTO usage_names (text, used_on) "
    'SELECT text, $2::integer FROM unnest($1::text[]) AS text ORDER BY text COLLATE "C" '
    "ON CONFLICT (text) DO UPDATE SET used_on = greatest(usage_names.used_on, excluded.used_on) "
    "RETURNING text, id"
)
