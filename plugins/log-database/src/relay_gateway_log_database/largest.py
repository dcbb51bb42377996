"""A series of its largest groups, with all others in one group per step.

Rollups are read for the largest groups only: what is left of the whole, which a smaller view knows,
is the rest. So a series costs what its points cost, however many groups there are.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Mapping
from heapq import nlargest
from typing import TypeAlias

from msgspec.structs import replace
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection

from relay_gateway_log_database.figures import Totals
from relay_gateway_log_database.period import divide
from relay_gateway_log_database.rollups import view_of
from relay_gateway_log_database.tables import HOUR_US
from relay_gateway_log_database.totals import (
    AT_ONCE,
    Group,
    Question,
    Way,
    add_rollups,
    add_rows,
    rows_of,
    sizes,
    total,
)

Spell: TypeAlias = Callable[[Collection[Group]], Awaitable[Mapping[Group, list[str]]]]
"""Gives the names of groups, which come without their steps."""


async def total_of_largest(
    connection: AsyncConnection, asked: Question, way: Way, top: int, spell: Spell
) -> dict[Group, Totals]:
    """Figures of the ``top`` groups with the most requests, and of all others together in groups
    that have a step and nothing else. Equal ones are in the order of their names."""
    if way.view is None:
        groups = await total(connection, asked, way)
        own = await _largest(await sizes(connection, asked, way, groups), top, spell)
        return groups if own is None else await _folded(connection, asked, way, groups, own)
    parts = divide(way.period, by_day=asked.step_us != HOUR_US)
    edges: dict[Group, Totals] = {}
    for span in parts.rows:
        await add_rows(connection, asked, span, edges, exactly=False)
    own = await _largest(await sizes(connection, asked, way, edges), top, spell)
    if own is None:
        await add_rollups(connection, asked, way.view, parts, edges)
        return edges
    groups = {}
    await add_rollups(connection, replace(asked, only=own), way.view, parts, groups)
    rest: dict[Group, Totals] = {}
    await add_rollups(
        connection, replace(asked, dimensions=()), view_of(asked.values) or 0, parts, rest
    )
    for (step, *_), totals in groups.items():
        if (step,) in rest:
            rest[step,].take(totals)
    groups.update((group, totals) for group, totals in rest.items() if totals.requests > 0)
    await _fold(edges, own, groups)
    return groups


async def _largest(requests: Mapping[Group, int], top: int, spell: Spell) -> set[Group] | None:
    """The groups that are not part of the rest, ``None`` where all are."""
    if len(requests) <= top:
        return None
    least = nlargest(top, requests.values())[-1]
    own = {group for group, number in requests.items() if number > least}
    names = await spell([group for group, number in requests.items() if number == least])
    return own | set(sorted(names, key=names.__getitem__)[: top - len(own)])


async def _fold(
    some: Mapping[Group, Totals], own: Collection[Group], groups: dict[Group, Totals]
) -> None:
    """Adds ``some`` to ``groups``, those that are not ``own`` to the rest of their step."""
    for number, (group, totals) in enumerate(some.items(), start=1):
        key = group if group[1:] in own else group[:1]
        if key in groups:
            groups[key].merge(totals)
        else:
            groups[key] = totals
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)


async def _folded(
    connection: AsyncConnection,
    asked: Question,
    way: Way,
    groups: Mapping[Group, Totals],
    own: Collection[Group],
) -> dict[Group, Totals]:
    folded: dict[Group, Totals] = {}
    await _fold(groups, own, folded)
    if not way.exactly:
        return folded
    rows = rows_of(connection, asked, way.period)
    keys = [rows.c[f"g{place}"] for place in range(len(asked.dimensions) + 1)]
    durations: defaultdict[Group, list[float]] = defaultdict(list)
    firsts: defaultdict[Group, list[float]] = defaultdict(list)
    for step, *values, duration, ttft in await connection.execute(
        select(*keys, rows.c.duration_ms, rows.c.ttft_ms)
    ):
        if tuple(values) not in own:
            durations[step,].append(duration)
            if ttft is not None:
                firsts[step,].append(ttft)
    for key, timed in durations.items():
        folded[key].duration.rank(timed)
        folded[key].ttft.rank(firsts[key])
    return folded
