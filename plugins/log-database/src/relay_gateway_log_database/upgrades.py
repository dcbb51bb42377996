"""What an older version of the tables lacks, made once, before anything is written or read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import Table, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from relay_gateway_log_database.histogram import shortened
from relay_gateway_log_database.rollups import BY_POLICY, COLUMNS, KEYS, VIEWS
from relay_gateway_log_database.rows import MAX_INTEGER
from relay_gateway_log_database.tables import DIMENSIONS, usage_daily, usage_hourly

BY_KEY = 4
"""The view of relay keys and policies, from which the one of policies is added up."""
STEPS = 24
"""Hours or days that are added up at once."""


async def upgrade(connection: AsyncConnection, version: int) -> None:
    """Adds what came after ``version``: sums per policy, with version 3. A month of 200 relay keys
    takes about three seconds."""
    if version < 3:
        for rollup in (usage_hourly, usage_daily):
            await _add_policies(connection, rollup)


async def _add_policies(connection: AsyncConnection, rollup: Table) -> None:
    step = rollup.c.step
    steps = list(
        await connection.scalars(
            select(step).where(rollup.c.view == BY_KEY).distinct().order_by(step)
        )
    )
    for first in range(0, len(steps), STEPS):
        some = steps[first : first + STEPS]
        found = await connection.execute(
            select(*(rollup.c[name] for name in COLUMNS)).where(
                rollup.c.view == BY_KEY, step.between(some[0], some[-1])
            )
        )
        sums = _by_policy(found)
        await connection.execute(
            insert(rollup), [dict(zip(COLUMNS, one, strict=True)) for one in sums]
        )


def _by_policy(rows: Iterable[Sequence[Any]]) -> list[tuple[Any, ...]]:
    place = KEYS.index("d1") + VIEWS[BY_KEY].index("policy_id")
    rest = (0,) * (DIMENSIONS - 1)
    found: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        key = (BY_POLICY, row[1], row[place], *rest, row[len(KEYS) - 1])
        values = list(row[len(KEYS) :])
        known = found.get(key)
        found[key] = values if known is None else list(map(_added, known, values))
    return [(*key, *map(_stored, values)) for key, values in found.items()]


def _added(one: Any, other: Any) -> Any:
    """The sum of two numbers, or one histogram after the other; ``None`` adds nothing."""
    if one is None or other is None:
        return other if one is None else one
    return one + other


def _stored(value: Any) -> Any:
    if isinstance(value, bytes):
        return shortened(value)
    return min(value, MAX_INTEGER) if isinstance(value, int) else value
