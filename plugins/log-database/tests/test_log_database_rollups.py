"""Sums per hour and day: the same figures as the rows give, whatever is asked and repeated."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_gateway.plugin import Interval, SeriesQuery, UsagePoint, UsageQuery, UsageRow
from relay_gateway.testing.plugin_tests import new_id
from relay_gateway.testing.records import timestamp, usage_record, varied_records
from relay_gateway_log_database import DatabaseSink
from relay_gateway_log_database.histogram import unpacked
from relay_gateway_log_database.period import Span, divide
from relay_gateway_log_database.rollups import (
    FEWEST_FIRST,
    LARGEST,
    LONG,
    SHORTENED_EVERY,
    VIEWS,
    view_of,
)
from relay_gateway_log_database.rows import MAX_INTEGER
from relay_gateway_log_database.tables import DAY_US, HOUR_US

DAY = 86_400
GROUPINGS = (
    (),
    ("model",),
    ("policy",),
    ("provider",),
    ("outcome", "status"),
    ("hostKey", "host"),
    ("policy", "model"),
    ("model", "host"),
    ("relayKey", "endpoint"),  # no view has both
    ("tag:team",),
)
PERIODS = (
    (None, None),
    (timestamp(1800.5), None),
    (None, timestamp(2 * DAY + 7000)),
    (timestamp(3600), timestamp(3 * DAY)),
    (timestamp(5000), timestamp(2 * DAY + 1)),
    (timestamp(DAY - 10), timestamp(DAY + 10)),
    (timestamp(9 * DAY), None),
)


def spread_records(number: int = 200) -> list[Any]:
    """Varied records over four days."""
    dice = random.Random(3)
    return [
        msgspec.structs.replace(record, started_at=timestamp(dice.uniform(0, 4 * DAY)))
        for record in varied_records(number)
    ]


def plain(row: UsageRow) -> UsageRow:
    """A row without what is approximate."""
    averages = {"avg": pytest.approx(row.duration_ms["avg"])}
    firsts = row.ttft_ms["avg"]
    return msgspec.structs.replace(
        row,
        duration_ms=averages,
        ttft_ms={"avg": None if firsts is None else pytest.approx(firsts)},
    )


async def summary(sink: DatabaseSink, query: UsageQuery, exact: int) -> list[UsageRow]:
    sink._answers.exact = exact
    return [plain(row) for row in await sink.summarize(query)]


async def series(sink: DatabaseSink, query: SeriesQuery, exact: int) -> list[UsagePoint]:
    sink._answers.exact = exact
    points = await sink.timeseries(query)
    return [UsagePoint(start=point.start, row=plain(point.row)) for point in points]


@pytest.mark.parametrize("group_by", GROUPINGS, ids="+".join)
async def test_rollups_give_the_figures_that_rows_give(
    sink: DatabaseSink, group_by: tuple[str, ...]
) -> None:
    await sink.write(spread_records())
    for start, end in PERIODS:
        equals = {"modelId": "model-2"} if start else {}
        query = UsageQuery(group_by=group_by, start=start, end=end, equals=equals)
        assert await summary(sink, query, 0) == await summary(sink, query, 10_000)


@pytest.mark.parametrize("interval", ["minute", "hour", "day"])
async def test_a_series_from_rollups_is_the_series_from_rows(
    sink: DatabaseSink, interval: Interval
) -> None:
    await sink.write(spread_records())
    for start, end in PERIODS:
        query = SeriesQuery(group_by=("model",), interval=interval, start=start, end=end)
        assert await series(sink, query, 0) == await series(sink, query, 10_000)


async def test_an_unknown_interval_is_refused(sink: DatabaseSink) -> None:
    query = msgspec.structs.replace(SeriesQuery(), interval="week")
    with pytest.raises(ValueError, match="interval is minute, hour, day, not 'week'"):
        await sink.timeseries(query)


async def test_f18_a_repeated_record_counts_once_in_the_sums(sink: DatabaseSink) -> None:
    records = spread_records()
    await sink.write(records)
    once = await summary(sink, UsageQuery(group_by=("model",)), 0)
    await sink.write(records)
    await sink.write([*records[:50], usage_record(model_id="new"), *records[:50]])
    again = await summary(sink, UsageQuery(group_by=("model",)), 0)
    assert [row for row in again if row.group["model"] != "new"] == once
    assert [row.requests for row in again if row.group["model"] == "new"] == [1]


async def test_writers_of_the_same_records_at_once_count_them_once(sink: DatabaseSink) -> None:
    records = spread_records(300)
    shuffled = random.Random(1).sample(records, len(records))
    await asyncio.gather(*(sink.write(batch) for batch in (records, shuffled) * 3))
    assert [row.requests for row in await summary(sink, UsageQuery(), 0)] == [300]


async def test_a_batch_that_fails_adds_nothing_to_the_sums(sink: DatabaseSink) -> None:
    bad = usage_record(started_at="yesterday")
    with pytest.raises(ValueError, match="RFC 3339"):
        await sink.write([*varied_records(250), bad])
    assert await summary(sink, UsageQuery(), 0) == []


async def test_f44_absurd_figures_stop_neither_batches_nor_sums(sink: DatabaseSink) -> None:
    batch = [
        usage_record(tokens={"input": MAX_INTEGER}, cost_nanos=1 << 70, duration_ms=1e300)
        for _ in range(600)
    ]
    for _ in range(3):
        await sink.write([msgspec.structs.replace(one, request_id=new_id()) for one in batch])
    (row,) = await summary(sink, UsageQuery(), 0)
    assert row.requests == 1800
    assert LARGEST < row.tokens["input"] <= MAX_INTEGER
    assert LARGEST < row.cost_nanos["USD"] <= MAX_INTEGER


async def test_a_record_of_the_past_is_added_to_its_own_hour(sink: DatabaseSink) -> None:
    await sink.write([usage_record(started_at=timestamp(5 * 3600 + 10))])
    await sink.write([usage_record(started_at=timestamp(2 * 3600 + 10))])
    points = await series(sink, SeriesQuery(), 0)
    assert [point.start for point in points] == ["2026-01-01T02:00:00Z", "2026-01-01T05:00:00Z"]


async def rows_of(sink: DatabaseSink, statement: str) -> list[Any]:
    async with sink._database.store.engine.connect() as connection:
        return list(await connection.exec_driver_sql(statement))


@pytest.mark.parametrize("rollup", ["usage_hourly", "usage_daily"])
async def test_histograms_of_a_busy_hour_stay_short_and_lose_nothing(
    sink: DatabaseSink, rollup: str
) -> None:
    dice = random.Random(5)
    for _ in range(6 * SHORTENED_EVERY):
        durations = [dice.lognormvariate(5, 2) for _ in range(30)]
        await sink.write([usage_record(duration_ms=one, ttft_ms=one / 3) for one in durations])
    (found,) = await rows_of(
        sink,
        f"SELECT duration_histogram, ttft_histogram FROM {rollup} WHERE view = 0",
    )
    for histogram in found:
        assert sum(unpacked(bytes(histogram))) == 6 * SHORTENED_EVERY * 30
        assert len(histogram) <= LONG


async def test_records_without_a_cost_make_no_sums_of_their_own(sink: DatabaseSink) -> None:
    free = usage_record(cost_nanos=None, currency=None, outcome="timeout")
    await sink.write([usage_record(cost_nanos=7, currency="EUR")])
    await sink.write([free])
    await sink.write([msgspec.structs.replace(free, request_id=new_id())])
    assert await rows_of(sink, "SELECT requests FROM usage_daily WHERE view = 0") == [(3,)]
    (row,) = await summary(sink, UsageQuery(), 0)
    assert row.cost_nanos == {"EUR": 7}


async def test_a_batch_over_many_days_is_added_to_each_of_them(sink: DatabaseSink) -> None:
    hours = [*range(0, 24 * 70, 7), *range(0, 24 * 70, 7)]
    for _ in range(SHORTENED_EVERY):  # one of them shortens histograms
        await sink.write([usage_record(started_at=timestamp(3600 * hour)) for hour in hours])
    points = await series(sink, SeriesQuery(interval="day"), 0)
    assert len(points) == 70
    assert sum(point.row.requests for point in points) == SHORTENED_EVERY * len(hours)


@pytest.mark.parametrize(
    ("columns", "view"),
    [
        ((), 0),
        (("status",), 1),
        (("model_id",), 2),
        (("host_key_id", "host_id"), 3),
        (("relay_key_id",), 4),
        (("policy_id",), 7),
        (("policy_id", "relay_key_id"), 4),
        (("host_id", "model_id"), 5),
        (("policy_id", "provider_id"), 6),
        (("policy_id", "host_id"), None),
        (("requested_model",), None),
    ],
)
def test_the_smallest_view_that_knows_all_dimensions_answers(
    columns: Sequence[str], view: int | None
) -> None:
    assert view_of(columns) == view


def test_views_are_tried_from_the_fewest_dimensions_on() -> None:
    assert sorted(FEWEST_FIRST) == list(range(len(VIEWS)))
    for place, number in enumerate(FEWEST_FIRST):
        smaller = [set(VIEWS[other]) for other in FEWEST_FIRST[:place]]
        assert not any(set(VIEWS[number]) < view for view in smaller)


moments = st.one_of(st.none(), st.integers(0, 5 * DAY_US))


@given(start=moments, end=moments, by_day=st.booleans(), moment=st.integers(0, 5 * DAY_US))
def test_each_moment_of_a_period_is_in_exactly_one_part(
    start: int | None, end: int | None, by_day: bool, moment: int
) -> None:
    def within(span: Span, value: int) -> bool:
        return (span.start is None or span.start <= value) and (
            span.end is None or value < span.end
        )

    period = Span(start, end)
    parts = divide(period, by_day=by_day)
    found = (
        sum(within(span, moment // DAY_US) for span in parts.daily)
        + sum(within(span, moment // HOUR_US) for span in parts.hourly)
        + sum(within(span, moment) for span in parts.rows)
    )
    assert found == (not period.empty and within(period, moment))
    assert by_day or not parts.daily
