"""Gives records that are stored another price, and moves the sums that they are part of.

Sums are kept per currency, for the cost alone. So only cost and the number of unpriced requests go
from one sum to another; everything else stays where it was counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, Table, bindparam, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from relay_gateway.plugin import UsageRecord
from relay_gateway_log_database.rollups import KEYS, LARGEST, UNITS, VIEWS, correcting
from relay_gateway_log_database.rows import (
    PRICED,
    is_id,
    microseconds,
    named,
    priced_values,
    slices,
)
from relay_gateway_log_database.tables import (
    DAY_US,
    DIMENSIONS,
    usage_daily,
    usage_hourly,
    usage_names,
    usage_rows,
)

ASKED_AT_ONCE = 500

Key = tuple[int, ...]
Change = tuple[Any, dict[str, object]]
"""A row, and its new values."""

_DIMENSIONS = tuple(dict.fromkeys(name for view in VIEWS for name in view))
_COLUMNS = tuple(dict.fromkeys(("started_us", "request_id", *PRICED, *_DIMENSIONS)))
_NUMBER = text(
    "INSERT INTO usage_names (text, used_on) VALUES (:text, :day) ON CONFLICT (text) DO UPDATE "
    "SET used_on = CASE WHEN excluded.used_on > usage_names.used_on THEN excluded.used_on "
    "ELSE usage_names.used_on END RETURNING id"
).columns(usage_names.c.id)


async def correct(engine: AsyncEngine, records: Sequence[UsageRecord], now_us: int) -> int:
    """Gives those of ``records`` that are stored their price, in one transaction; returns how many
    changed."""
    wanted = {record.request_id: record for record in records if is_id(record.request_id)}
    async with engine.begin() as connection:
        if engine.dialect.name == "sqlite":
            # What is read here must not change before it is written.
            await connection.exec_driver_sql("BEGIN IMMEDIATE")
        numbers = await _numbers(connection, wanted.values(), now_us // DAY_US)
        changes: list[Change] = []
        # In one order, so that two instances cannot wait for each other.
        for some in slices([wanted[one] for one in sorted(wanted)], ASKED_AT_ONCE):
            changes += await _changes(connection, some, wanted, numbers)
        if changes:
            await _write_rows(connection, changes)
            for rollup in (usage_hourly, usage_daily):
                await _move_sums(connection, rollup, changes)
    return len(changes)


async def _numbers(connection: AsyncConnection, records: Any, day: int) -> Mapping[str, int]:
    texts = {named(name) for one in records for name in (one.currency, one.pricing_id) if name}
    found = {}
    for name in sorted(texts):
        found[name] = int(await connection.scalar(_NUMBER, {"text": name, "day": day}))
    return found


async def _changes(
    connection: AsyncConnection,
    records: Sequence[UsageRecord],
    wanted: Mapping[str, UsageRecord],
    numbers: Mapping[str, int],
) -> list[Change]:
    times = [microseconds(record.started_at) for record in records]
    found = await connection.execute(
        select(*(usage_rows.c[name] for name in _COLUMNS))
        .where(
            usage_rows.c.request_id.in_([record.request_id for record in records]),
            usage_rows.c.started_us.between(min(times), max(times)),
        )
        .order_by(usage_rows.c.request_id)
        .with_for_update()
    )
    changes = []
    for row in found:
        values = priced_values(row.rest, wanted[row.request_id], numbers)
        if any(getattr(row, name) != value for name, value in values.items()):
            changes.append((row, values))
    return changes


async def _write_rows(connection: AsyncConnection, changes: Sequence[Change]) -> None:
    statement = (
        update(usage_rows)
        .where(
            usage_rows.c.started_us == bindparam("its_start"),
            usage_rows.c.request_id == bindparam("its_id"),
        )
        .values({name: bindparam(f"new_{name}") for name in PRICED})
    )
    await connection.execute(
        statement,
        [
            {
                "its_start": row.started_us,
                "its_id": row.request_id,
                **{f"new_{name}": value for name, value in values.items()},
            }
            for row, values in changes
        ],
    )


async def _move_sums(connection: AsyncConnection, rollup: Table, changes: Sequence[Change]) -> None:
    moved: dict[Key, tuple[int, int | None]] = {}
    for row, values in changes:
        before = {name: getattr(row, name) for name in PRICED}
        for sign, price in ((-1, before), (1, values)):
            for key, unpriced, cost in _parts(UNITS[rollup.name], row, price):
                count, total = moved.get(key, (0, None))
                if cost is not None:
                    total = (total or 0) + sign * cost
                moved[key] = (count + sign * unpriced, total)
    # Each value by its type: a bare number would be one of 32 bits for PostgreSQL.
    names = (*KEYS, "unpriced", "cost_nanos")
    statement = text(correcting(rollup)).bindparams(
        *(bindparam(name, type_=BigInteger) for name in names)
    )
    await connection.execute(
        statement,
        [
            dict(zip(names, (*key, *moved[key]), strict=True))
            for key in sorted(moved)
            if moved[key] != (0, None)
        ],
    )


def _parts(
    unit_us: int, row: Any, price: Mapping[str, Any]
) -> Iterator[tuple[Key, int, int | None]]:
    """What ``row`` at ``price`` is in each view: the key of the sum, and its part of it."""
    cost = price["cost_nanos"]
    part = None if cost is None else min(cost, LARGEST)
    for number, view in enumerate(VIEWS):
        values = [getattr(row, name) or 0 for name in view]
        values += [0] * (DIMENSIONS - len(view))
        key = (number, row.started_us // unit_us, *values, price["currency"] or 0)
        yield key, int(price["unpriced"]), part
