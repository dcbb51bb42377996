"""Totals as the API has them: names for numbers, and the order of rows and points."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

from sqlalchemy.ext.asyncio import AsyncConnection

from relay_gateway.plugin import SeriesQuery, UsagePoint, UsageQuery, UsageRow
from relay_gateway_log_database.largest import total_of_largest
from relay_gateway_log_database.names import Texts
from relay_gateway_log_database.rows import slices, started_at
from relay_gateway_log_database.tables import DAY_US, HOUR_US, OUTCOMES
from relay_gateway_log_database.totals import (
    AT_ONCE,
    EXACT_REQUESTS,
    TAG,
    Group,
    dimension_of,
    question_of,
    total,
    way_of,
)

STEPS = {"minute": HOUR_US // 60, "hour": HOUR_US, "day": DAY_US}
Row: TypeAlias = tuple[int, list[str], UsageRow]
"""A step, the names of a group, none of the rest's, and its totals."""
_outcomes = {code: outcome for outcome, code in OUTCOMES.items()}


class Answers:
    """Answers to queries about totals. ``exact`` is up to how many requests rows are asked."""

    def __init__(self, texts: Texts, exact: int = EXACT_REQUESTS) -> None:
        self._texts = texts
        self.exact = exact

    async def summarize(
        self, connection: AsyncConnection, query: UsageQuery, rows_from: int | None
    ) -> list[UsageRow]:
        """Totals per group, largest number of requests first."""
        rows = await self._rows(connection, query, None, rows_from)
        return [row for _, _, row in sorted(rows, key=_busiest)]

    async def timeseries(
        self, connection: AsyncConnection, query: SeriesQuery, rows_from: int | None
    ) -> list[UsagePoint]:
        """Totals per step and group, oldest step first."""
        step_us = STEPS.get(query.interval)
        if step_us is None:
            raise ValueError(f"interval is {', '.join(STEPS)}, not {query.interval!r}")
        rows = await self._rows(connection, query, step_us, rows_from, query.top)
        grouped = bool(query.group_by)
        rows.sort(key=lambda one: (one[0], grouped and not one[1], *_busiest(one)))
        starts = {step: _moment(step * step_us) for step in {step for step, _, _ in rows}}
        return [
            UsagePoint(start=starts[step], row=row, other=grouped and not texts)
            for step, texts, row in rows
        ]

    async def _rows(
        self,
        connection: AsyncConnection,
        query: UsageQuery,
        step_us: int | None,
        rows_from: int | None,
        top: int | None = None,
    ) -> list[Row]:
        asked = await question_of(connection, query, step_us)
        if asked is None:
            return []
        names = tuple(dict.fromkeys(query.group_by))
        way = await way_of(connection, asked, exact=self.exact, rows_from=rows_from)
        if top is None or not names:
            groups = await total(connection, asked, way)
        else:
            spell = partial(self._spelled, connection, names)
            groups = await total_of_largest(connection, asked, way, top, spell)
        texts = await self._named(connection, names, [group[1:] for group in groups])
        currencies = {number for totals in groups.values() for number in totals.cost} - {0}
        texts.update(await self._texts.of(connection, currencies))
        # A series has the same groups in each step.
        shown = {values: _shown(names, values, texts) for values in {group[1:] for group in groups}}
        spelled = {values: _texts(group) for values, group in shown.items()}
        rows = []
        for some in slices(list(groups.items()), AT_ONCE):
            rows += [
                (group[0], spelled[group[1:]], totals.row(shown[group[1:]].copy(), texts))
                for group, totals in some
            ]
            await asyncio.sleep(0)
        return rows

    async def _spelled(
        self, connection: AsyncConnection, names: Sequence[str], groups: Collection[Group]
    ) -> dict[Group, list[str]]:
        texts = await self._named(connection, names, groups)
        return {group: _texts(_shown(names, group, texts)) for group in groups}

    async def _named(
        self, connection: AsyncConnection, names: Sequence[str], groups: Collection[Group]
    ) -> dict[int, str]:
        """Texts of the numbers in ``groups``, which come without their steps; the rest of a series
        has none."""
        places = [place for place, name in enumerate(names) if _is_number_of_name(name)]
        numbers = {group[place] for group in groups if group for place in places} - {0}
        return {0: "", **await self._texts.of(connection, numbers)}


def _is_number_of_name(name: str) -> bool:
    return not name.startswith(TAG) and dimension_of(name) not in ("status", "outcome")


def _shown(
    names: Sequence[str], values: Sequence[Any], texts: Mapping[int, str]
) -> dict[str, str | None]:
    if not values:
        return {}
    return {name: _text(name, value, texts) for name, value in zip(names, values, strict=True)}


def _text(name: str, value: Any, texts: Mapping[int, str]) -> str | None:
    if name == "outcome":
        return _outcomes[value]
    if name == "status":
        return str(value)
    if name.startswith(TAG):
        return None if value is None else str(value)
    return texts[value] if value else None


def _busiest(row: Row) -> tuple[int, list[str]]:
    return (-row[2].requests, row[1])


def _texts(group: Mapping[str, str | None]) -> list[str]:
    return [value or "" for value in group.values()]


def _moment(started_us: int) -> str:
    return f"{started_at(started_us)[:19]}Z"
