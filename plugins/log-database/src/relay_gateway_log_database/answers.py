"""Totals as the API has them: names for numbers, and the order of rows and points."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from relay_gateway.plugin import SeriesQuery, UsagePoint, UsageQuery, UsageRow
from relay_gateway_log_database.figures import Totals
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
)

STEPS = {"minute": HOUR_US // 60, "hour": HOUR_US, "day": DAY_US}
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
        return sorted((row for _, row in rows), key=_busiest)

    async def timeseries(
        self, connection: AsyncConnection, query: SeriesQuery, rows_from: int | None
    ) -> list[UsagePoint]:
        """Totals per step and group, oldest step first."""
        step_us = STEPS.get(query.interval)
        if step_us is None:
            raise ValueError(f"interval is {', '.join(STEPS)}, not {query.interval!r}")
        rows = await self._rows(connection, query, step_us, rows_from)
        rows.sort(key=lambda pair: (pair[0], *_busiest(pair[1])))
        starts = {step: _moment(step * step_us) for step in {step for step, _ in rows}}
        return [UsagePoint(start=starts[step], row=row) for step, row in rows]

    async def _rows(
        self,
        connection: AsyncConnection,
        query: UsageQuery,
        step_us: int | None,
        rows_from: int | None,
    ) -> list[tuple[int, UsageRow]]:
        asked = await question_of(connection, query, step_us)
        if asked is None:
            return []
        groups = await total(connection, asked, exact=self.exact, rows_from=rows_from)
        names = tuple(dict.fromkeys(query.group_by))
        texts = await self._named(connection, names, groups)
        rows = []
        for some in slices(list(groups.items()), AT_ONCE):
            rows += [
                (group[0], totals.row(_shown(names, group[1:], texts), texts))
                for group, totals in some
            ]
            await asyncio.sleep(0)
        return rows

    async def _named(
        self, connection: AsyncConnection, names: Sequence[str], groups: Mapping[Group, Totals]
    ) -> dict[int, str]:
        numbers = {number for totals in groups.values() for number in totals.cost}
        for place, name in enumerate(names, start=1):
            if _is_number_of_name(name):
                numbers.update(group[place] for group in groups)
        numbers.discard(0)
        return {0: "", **await self._texts.of(connection, numbers)}


def _is_number_of_name(name: str) -> bool:
    return not name.startswith(TAG) and dimension_of(name) not in ("status", "outcome")


def _shown(
    names: Sequence[str], values: Sequence[Any], texts: Mapping[int, str]
) -> dict[str, str | None]:
    return {name: _text(name, value, texts) for name, value in zip(names, values, strict=True)}


def _text(name: str, value: Any, texts: Mapping[int, str]) -> str | None:
    if name == "outcome":
        return _outcomes[value]
    if name == "status":
        return str(value)
    if name.startswith(TAG):
        return None if value is None else str(value)
    return texts[value] if value else None


def _busiest(row: UsageRow) -> tuple[int, list[str]]:
    return (-row.requests, [value or "" for value in row.group.values()])


def _moment(started_us: int) -> str:
    return f"{started_at(started_us)[:19]}Z"
