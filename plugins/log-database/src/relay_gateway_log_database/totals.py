"""Totals per group and step: from the rollups where they know the answer, else from the rows.

Up to ``EXACT_REQUESTS`` requests the rows answer, with percentiles interpolated between neighbours
as ``percentile_cont`` of PostgreSQL has it. Beyond, percentiles come from histograms. The same SQL
runs on both databases.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import (
    ColumnElement,
    LargeBinary,
    Select,
    Subquery,
    Table,
    case,
    cast,
    func,
    literal,
    literal_column,
    or_,
    select,
    tuple_,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from relay_gateway.plugin import LOG_DIMENSIONS, UsageQuery
from relay_gateway_log_database.figures import SUMS, Totals
from relay_gateway_log_database.filters import (
    Condition,
    column_name,
    equal_to,
    in_period,
    moment,
    tag_value,
    tagged,
    values_of,
)
from relay_gateway_log_database.histogram import FIRST_LETTER, PERCENTILES
from relay_gateway_log_database.period import Division, Span, divide
from relay_gateway_log_database.rollups import HISTOGRAMS, UNITS, is_as_fine, places_of, view_of
from relay_gateway_log_database.tables import (
    COUNTED,
    DAY_US,
    HOUR_US,
    OK,
    SUMMED,
    TIMED,
    usage_daily,
    usage_hourly,
    usage_rows,
)

EXACT_REQUESTS = 20_000
AT_ONCE = 100
"""Sums and points between which others may use the event loop; a hundred take a millisecond or two.
"""
TAG = "tag:"

Group = tuple[Any, ...]
"""The step, in microseconds or 0, and the value of each dimension as the tables hold it."""


class Question(msgspec.Struct, frozen=True):
    """A query as the tables understand it."""

    dimensions: tuple[str, ...]
    """Columns, and tags by ``tag:name``."""
    period: Span
    values: Mapping[str, object]
    tags: Mapping[str, str]
    step_us: int | None
    only: Collection[Group] | None = None
    """The groups that are meant, without their step, where not all are; rollups know of it."""

    @property
    def view(self) -> int | None:
        """The view of the rollups that knows the answer."""
        if self.tags or self.step_us not in (None, HOUR_US, DAY_US):
            return None
        return view_of((*self.dimensions, *self.values))


def dimension_of(name: str) -> str:
    """The column of a dimension, ``tag:name`` for a tag. Raises :class:`ValueError`."""
    if name in LOG_DIMENSIONS:
        return column_name(LOG_DIMENSIONS[name])
    if name.startswith(TAG) and name != TAG:
        return name
    known = ", ".join(LOG_DIMENSIONS)
    raise ValueError(f"usage cannot be grouped by {name!r}; it can by {known} and tag:<name>")


async def question_of(
    connection: AsyncConnection, query: UsageQuery, step_us: int | None
) -> Question | None:
    """What ``query`` asks the tables, ``None`` when no record can answer.

    Raises :class:`ValueError` for an unknown dimension or a filter that is wrong.
    """
    dimensions = tuple(dimension_of(name) for name in dict.fromkeys(query.group_by))
    period = Span(moment(query.start), moment(query.end))
    values = await values_of(connection, query.equals)
    if values is None or period.empty:
        return None
    return Question(dimensions, period, values, query.tags, step_us)


class Way(msgspec.Struct, frozen=True):
    """How a question is answered: from the rollups' ``view`` or, where that is ``None``, from rows,
    with percentiles of the values themselves if ``exactly``."""

    period: Span
    view: int | None = None
    exactly: bool = False


async def way_of(
    connection: AsyncConnection, asked: Question, *, exact: int, rows_from: int | None
) -> Way:
    """From rows up to so many requests. Rows before ``rows_from`` (microseconds), if any, may be
    deleted already, so rollups answer there, in whole hours."""
    view = asked.view
    if view is not None and rows_from is not None and (asked.period.start or 0) < rows_from:
        start = asked.period.start
        whole_hours = None if start is None else start // HOUR_US * HOUR_US
        return Way(Span(whole_hours, asked.period.end), view)
    if await _number(connection, asked, view, exact) <= exact:
        return Way(asked.period, exactly=True)
    return Way(asked.period, view)


async def total(connection: AsyncConnection, asked: Question, way: Way) -> dict[Group, Totals]:
    """Figures of each group."""
    groups: dict[Group, Totals] = {}
    if way.view is None:
        await add_rows(connection, asked, way.period, groups, exactly=way.exactly)
        return groups
    parts = divide(way.period, by_day=asked.step_us != HOUR_US)
    await add_rollups(connection, asked, way.view, parts, groups)
    for span in parts.rows:
        await add_rows(connection, asked, span, groups, exactly=False)
    return groups


async def _number(connection: AsyncConnection, asked: Question, view: int | None, most: int) -> int:
    """At least as many requests as are in the period, or more than ``most``."""
    if view is None:
        some = select(literal(1)).where(*_row_conditions(connection, asked, asked.period))
        counted = select(func.count()).select_from(some.limit(most + 1).subquery())
        return int(await connection.scalar(counted) or 0)
    smallest = view_of(asked.values)
    parts = divide(asked.period.rounded(HOUR_US).times(HOUR_US), by_day=True)
    number = 0
    for rollup, span in _spans(parts):
        conditions = _rollup_conditions(rollup, smallest or 0, asked, span)
        counted = select(func.sum(rollup.c.requests)).where(*conditions)
        number += int(await connection.scalar(counted) or 0)
    return number


async def sizes(
    connection: AsyncConnection, asked: Question, way: Way, groups: Mapping[Group, Totals]
) -> dict[Group, int]:
    """Requests of each group, without its step, in the rollups of ``way`` and in ``groups``."""
    found: Counter[Group] = Counter()
    for group, totals in groups.items():
        found[group[1:]] += totals.requests
    if way.view is not None:
        for rollup, span in _spans(divide(way.period, by_day=True)):
            keys = [rollup.c[place] for place in places_of(way.view, asked.dimensions)]
            counted = select(*keys, func.sum(rollup.c.requests)).group_by(*keys)
            conditions = _rollup_conditions(rollup, way.view, asked, span)
            for *values, requests in await connection.execute(counted.where(*conditions)):
                found[tuple(values)] += int(requests)
    return found


async def add_rollups(
    connection: AsyncConnection,
    asked: Question,
    view: int,
    parts: Division,
    groups: dict[Group, Totals],
) -> None:
    """Adds what the rollups have of ``parts``."""
    for rollup, span in _spans(parts):
        await _add_rollup(connection, rollup, view, asked, span, groups)


def _spans(parts: Division) -> Iterator[tuple[Table, Span]]:
    for rollup, spans in ((usage_daily, parts.daily), (usage_hourly, parts.hourly)):
        for span in spans:
            yield rollup, span


async def _add_rollup(
    connection: AsyncConnection,
    rollup: Table,
    view: int,
    asked: Question,
    span: Span,
    groups: dict[Group, Totals],
) -> None:
    step = _step(rollup.c.step, UNITS[rollup.name], asked.step_us)
    keys = [step, *(rollup.c[place] for place in places_of(view, asked.dimensions))]
    conditions = _rollup_conditions(rollup, view, asked, span)
    if asked.step_us == UNITS[rollup.name] and is_as_fine(asked.dimensions, view):
        # About as many groups as sums: putting them together here saves sorting them there.
        figures = (rollup.c[name] for name in FIGURES)
        found = await connection.execute(select(*keys, *figures).where(*conditions))
        await _add(found, len(keys), groups)
        return
    dialect = connection.dialect.name
    summed = [
        *(func.sum(rollup.c[name]) for name in COUNTED),
        rollup.c.currency,
        *(half for name in SUMMED for half in _exact_sum(rollup.c[name])),
        *(func.sum(rollup.c[f"{kind}_sum"]) for kind in TIMED),
        *(_joined_bytes(rollup.c[name], dialect) for name in HISTOGRAMS),
    ]
    wanted = _grouped(keys, summed).where(*conditions)
    await _add(_whole(await connection.execute(wanted), len(keys)), len(keys), groups)


FIGURES = (*COUNTED, "currency", *SUMMED, *(f"{kind}_sum" for kind in TIMED), *HISTOGRAMS)
"""Columns of the rollups that :class:`Totals` adds, in this order."""


def _rollup_conditions(rollup: Table, view: int, asked: Question, span: Span) -> list[Condition]:
    places = places_of(view, tuple(asked.values))
    conditions: list[Condition] = [rollup.c.view == view]
    if span.start is not None:
        conditions.append(rollup.c.step >= span.start)
    if span.end is not None:
        conditions.append(rollup.c.step < span.end)
    if asked.only is not None:
        columns = [rollup.c[place] for place in places_of(view, asked.dimensions)]
        conditions.append(tuple_(*columns).in_(asked.only))
    return conditions + [
        rollup.c[place] == value for place, value in zip(places, asked.values.values(), strict=True)
    ]


def rows_of(connection: AsyncConnection, asked: Question, span: Span) -> Subquery:
    """The rows with their figures, and step and dimensions as ``g0``, ``g1``, …"""
    dialect = connection.dialect.name
    keys = [
        _step(usage_rows.c.started_us, 1, asked.step_us),
        *(_dimension(name, dialect) for name in asked.dimensions),
    ]
    # A subquery names each dimension once: PostgreSQL does not take two parameters for the same
    # expression.
    return (
        select(
            *(key.label(f"g{place}") for place, key in enumerate(keys)),
            *(usage_rows.c[name] for name in _ROW_FIGURES),
        )
        .where(*_row_conditions(connection, asked, span))
        .subquery()
    )


async def add_rows(
    connection: AsyncConnection,
    asked: Question,
    span: Span,
    groups: dict[Group, Totals],
    *,
    exactly: bool,
) -> None:
    """Adds the rows of ``span``."""
    dialect = connection.dialect.name
    rows = rows_of(connection, asked, span)
    keys = [rows.c[f"g{place}"] for place in range(len(asked.dimensions) + 1)]
    currency = func.coalesce(rows.c.currency, 0)
    letters = (
        () if exactly else tuple(_letters(rows.c[f"{kind}_bucket"], dialect) for kind in TIMED)
    )
    wanted = _grouped(keys, [*_row_sums(rows.c, currency), *letters])
    await _add(_whole(await connection.execute(wanted), len(keys)), len(keys), groups)
    if exactly:
        for kind in TIMED:
            ranked = _ranks(keys, rows.c[f"{kind}_ms"])
            _add_ranks(await connection.execute(ranked), kind, groups)


_ROW_FIGURES = (
    "outcome",
    "unpriced",
    "currency",
    *SUMMED,
    *(f"{kind}_{what}" for kind in TIMED for what in ("ms", "bucket")),
)


def _row_sums(rows: Any, currency: ColumnElement[Any]) -> list[ColumnElement[Any]]:
    return [
        func.count(),
        func.sum(case((rows.outcome != OK, 1), else_=0)),
        func.sum(case((rows.unpriced, 1), else_=0)),
        currency,
        *(half for name in SUMMED for half in _exact_sum(rows[name])),
        *(func.sum(rows[f"{kind}_ms"]) for kind in TIMED),
    ]


def _joined_bytes(column: ColumnElement[Any], dialect: str) -> ColumnElement[Any]:
    """The bytes of all rows of a group, one after the other."""
    if dialect == "postgresql":
        return func.string_agg(column, literal_column("CAST('' AS bytea)"))
    return cast(func.group_concat(column, literal_column("''")), LargeBinary)


def _letters(bucket: ColumnElement[Any], dialect: str) -> ColumnElement[Any]:
    """A letter for each row of a group that has a bucket."""
    code = bucket + literal_column(str(FIRST_LETTER))
    if dialect == "postgresql":
        return func.string_agg(func.chr(code), literal_column("''"))
    # A letter is made of NULL, too.
    letter = case((bucket.is_not(None), func.char(code)))
    return func.group_concat(letter, literal_column("''"))


def _row_conditions(connection: AsyncConnection, asked: Question, span: Span) -> list[Condition]:
    return [
        *in_period(span.start, span.end),
        *equal_to(asked.values),
        *tagged(connection.dialect.name, asked.tags),
    ]


def _dimension(name: str, dialect: str) -> ColumnElement[Any]:
    """A column or a tag; 0 for no value, as rollups have it, for all but tags."""
    if name.startswith(TAG):
        return tag_value(dialect, name.removeprefix(TAG))
    return func.coalesce(usage_rows.c[name], literal_column("0"))


def _step(time: ColumnElement[Any], unit: int, step_us: int | None) -> ColumnElement[Any]:
    """The number of the step that ``time``, in units of so many microseconds, is in."""
    if step_us is None:
        return literal_column("0")
    return time.op("/")(literal_column(str(step_us // unit))) if step_us != unit else time


def _grouped(
    keys: Sequence[ColumnElement[Any]],
    figures: Sequence[ColumnElement[Any]],
) -> Select[Any]:
    # By place, for a constant cannot be grouped by; the currency follows the three counts.
    last = len(keys) + COUNTED_AND_CURRENCY
    places: list[ColumnElement[Any]] = [
        literal_column(str(place)) for place in (*range(1, len(keys) + 1), last)
    ]
    return select(*keys, *figures).group_by(*places)


COUNTED_AND_CURRENCY = len(COUNTED) + 1


def _exact_sum(column: ColumnElement[Any]) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """Sums of the upper and lower 32 bits: a sum of SQLite fails beyond 63 bits."""
    high = column.bitwise_rshift(literal_column("32"))
    low = column.bitwise_and(literal_column("4294967295"))
    return func.sum(high), func.sum(low)


def _whole(rows: Iterable[Sequence[Any]], keys: int) -> Iterator[Sequence[Any]]:
    """Rows with each sum in one piece, from rows with each in two halves."""
    first = keys + SUMS
    last = first + 2 * len(SUMMED)
    for row in rows:
        halves = zip(row[first:last:2], row[first + 1 : last : 2], strict=True)
        sums = [None if high is None else (int(high) << 32) + int(low) for high, low in halves]
        yield (*row[:first], *sums, *row[last:])


async def _add(rows: Iterable[Sequence[Any]], keys: int, groups: dict[Group, Totals]) -> None:
    for number, row in enumerate(rows, start=1):
        group = tuple(row[:keys])
        found = groups.get(group)
        if found is None:
            found = groups[group] = Totals()
        found.add(row[keys:])
        if number % AT_ONCE == 0:
            await asyncio.sleep(0)


def _ranks(keys: Sequence[ColumnElement[Any]], value: ColumnElement[Any]) -> Select[Any]:
    """The values at and after the rank of each percentile, counted from 0, per group."""
    ranked = (
        select(
            *keys,
            value.label("value"),
            func.row_number().over(partition_by=keys, order_by=value).label("place"),
            func.count().over(partition_by=keys).label("size"),
        )
        .where(value.is_not(None))
        .subquery()
    )
    rank = ranked.c.place - 1
    wanted = [(ranked.c.size - 1) * percent // 100 for percent in PERCENTILES]
    found = [ranked.c[key.key] for key in keys if key.key is not None]
    return select(*found, rank, ranked.c.value, ranked.c.size).where(
        or_(*(rank.in_((first, first + 1)) for first in wanted))
    )


def _add_ranks(rows: Iterable[Sequence[Any]], kind: str, groups: dict[Group, Totals]) -> None:
    for *group, rank, value, size in rows:
        totals = groups[tuple(group)]
        timing = totals.duration if kind == "duration" else totals.ttft
        if timing.by_rank is None:
            timing.by_rank = {}
        timing.by_rank[rank] = value
        timing.count = size
