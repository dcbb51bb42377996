"""Totals per group: one statement for sums, one for each of the two percentile figures.

The same SQL runs on both databases. Percentiles are interpolated between neighbours, as
``percentile_cont`` of PostgreSQL has it, from at most six rows per group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import (
    ColumnElement,
    FromClause,
    Row,
    Select,
    case,
    func,
    literal_column,
    or_,
    select,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from relay_gateway.plugin import LOG_DIMENSIONS, UsageQuery, UsageRow
from relay_gateway_log_database.filters import column_of, equal_to, in_period, tag_value
from relay_gateway_log_database.rows import MAX_INTEGER
from relay_gateway_log_database.tables import METERS, usage_records

PERCENTILES = (50, 95, 99)
SUMMED = (*METERS.values(), "cost_nanos")
TIMED = ("duration_ms", "ttft_ms")

Group = tuple[Any, ...]


@dataclass(slots=True)
class Timing:
    """Durations of one group while they are put together."""

    total: float = 0.0
    count: int = 0
    by_rank: dict[int, float] = field(default_factory=dict)

    def figures(self) -> dict[str, float | None]:
        """Mean and percentiles in milliseconds, ``None`` without any value."""
        mean = self.total / self.count if self.count else None
        percentiles = {f"p{percent}": self._percentile(percent) for percent in PERCENTILES}
        return {"avg": mean, **percentiles}

    def _percentile(self, percent: int) -> float | None:
        if not self.by_rank:
            return None
        rank, rest = divmod(percent * (self.count - 1), 100)
        low = self.by_rank[rank]
        return low + (self.by_rank[rank + 1] - low) * rest / 100 if rest else low


@dataclass(slots=True)
class Totals:
    """Figures of one group while they are put together."""

    requests: int = 0
    errors: int = 0
    unpriced: int = 0
    tokens: dict[str, int] = field(default_factory=dict)
    cost_nanos: dict[str, int] = field(default_factory=dict)
    timings: dict[str, Timing] = field(
        default_factory=lambda: {column: Timing() for column in TIMED}
    )

    def add(self, row: Row[Any]) -> None:
        """Adds the sums of one currency."""
        self.requests += row.requests
        self.errors += int(row.errors)
        self.unpriced += int(row.unpriced)
        for meter, column in METERS.items():
            _add_sum(self.tokens, meter, row, column)
        _add_sum(self.cost_nanos, row.currency or "", row, "cost_nanos")
        for column, timing in self.timings.items():
            timing.total += getattr(row, f"{column}_sum") or 0.0
            timing.count += getattr(row, f"{column}_count")

    def row(self, names: Sequence[str], group: Group) -> UsageRow:
        """The totals as the API has them."""
        return UsageRow(
            group={
                name: None if value is None else str(value)
                for name, value in zip(names, group, strict=True)
            },
            requests=self.requests,
            errors=self.errors,
            tokens=self.tokens,
            cost_nanos=self.cost_nanos,
            unpriced=self.unpriced,
            duration_ms=self.timings["duration_ms"].figures(),
            ttft_ms=self.timings["ttft_ms"].figures(),
        )


async def summarize(connection: AsyncConnection, query: UsageQuery) -> list[UsageRow]:
    """Totals per group, largest number of requests first; none where there are no records.

    Raises :class:`ValueError` for an unknown dimension or a filter that is wrong.
    """
    names = tuple(dict.fromkeys(query.group_by))
    records = _records(names, query, connection.dialect.name)
    groups: dict[Group, Totals] = {}
    for row in await connection.execute(_sums(records, len(names))):
        groups.setdefault(tuple(row[: len(names)]), Totals()).add(row)
    for column in TIMED:
        for row in await connection.execute(_ranks(records, len(names), column)):
            groups[tuple(row[: len(names)])].timings[column].by_rank[row.rank] = row.value
    rows = [totals.row(names, group) for group, totals in groups.items()]
    return sorted(rows, key=lambda row: (-row.requests, [v or "" for v in row.group.values()]))


def _records(names: Sequence[str], query: UsageQuery, dialect: str) -> FromClause:
    """The records asked for. A subquery names each dimension once: PostgreSQL does not take
    two parameters for the same expression."""
    figures = ("outcome", "unpriced", "currency", *SUMMED, *TIMED)
    return (
        select(
            *(_dimension(name, dialect).label(f"g{i}") for i, name in enumerate(names)),
            *(usage_records.c[name] for name in figures),
        )
        .where(*_chosen(query, dialect))
        .subquery()
    )


def _chosen(query: UsageQuery, dialect: str) -> list[ColumnElement[bool]]:
    period = in_period(query.start, query.end)
    if dialect == "sqlite" and query.equals and not period:
        # Otherwise SQLite would read all rows, not the index that has most of the filters.
        period = [usage_records.c.started_us >= literal_column(str(-MAX_INTEGER))]
    return [*period, *equal_to(query.equals)]


def _dimension(name: str, dialect: str) -> ColumnElement[Any]:
    if name in LOG_DIMENSIONS:
        return column_of(LOG_DIMENSIONS[name])
    prefix, _, tag = name.partition(":")
    if prefix == "tag" and tag:
        return tag_value(dialect, tag)
    known = ", ".join(LOG_DIMENSIONS)
    raise ValueError(f"usage cannot be grouped by {name!r}; it can by {known} and tag:<name>")


def _sums(records: FromClause, dimensions: int) -> Select[Any]:
    keys = (*_keys(records, dimensions), records.c.currency)
    return select(
        *keys,
        func.count().label("requests"),
        func.sum(case((records.c.outcome != "ok", 1), else_=0)).label("errors"),
        func.sum(case((records.c.unpriced, 1), else_=0)).label("unpriced"),
        *(half for name in SUMMED for half in _exact_sum(records.c[name])),
        *(func.sum(records.c[name]).label(f"{name}_sum") for name in TIMED),
        *(func.count(records.c[name]).label(f"{name}_count") for name in TIMED),
    ).group_by(*keys)


def _exact_sum(column: ColumnElement[Any]) -> Iterable[ColumnElement[Any]]:
    """Sums of the upper and lower 32 bits: a sum of SQLite fails beyond 63 bits."""
    high = column.bitwise_rshift(literal_column("32"))
    low = column.bitwise_and(literal_column("4294967295"))
    yield func.sum(high).label(f"{column.key}_high")
    yield func.sum(low).label(f"{column.key}_low")


def _add_sum(sums: dict[str, int], name: str, row: Row[Any], column: str) -> None:
    high = getattr(row, f"{column}_high")
    if high is not None:
        low = getattr(row, f"{column}_low")
        sums[name] = sums.get(name, 0) + (int(high) << 32) + int(low)


def _ranks(records: FromClause, dimensions: int, name: str) -> Select[Any]:
    """The values at and after the rank of each percentile, counted from 0, per group."""
    keys, value = _keys(records, dimensions), records.c[name]
    ranked = (
        select(
            *keys,
            value.label("value"),
            func.row_number().over(partition_by=keys or None, order_by=value).label("place"),
            func.count().over(partition_by=keys or None).label("size"),
        )
        .where(value.is_not(None))
        .subquery()
    )
    rank = ranked.c.place - 1
    wanted = [(ranked.c.size - 1) * percent // 100 for percent in PERCENTILES]
    return select(*_keys(ranked, dimensions), rank.label("rank"), ranked.c.value).where(
        or_(*(rank.in_((first, first + 1)) for first in wanted))
    )


def _keys(source: FromClause, dimensions: int) -> list[ColumnElement[Any]]:
    return [source.c[f"g{i}"] for i in range(dimensions)]
