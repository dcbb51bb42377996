"""Corrected prices: in rows, in what rows cannot hold, and in every sum."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec

from relay_gateway.plugin import Interval, SeriesQuery, UsageQuery, UsageRecord
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.records import timestamp, usage_record, varied_records
from relay_gateway_log_database import DatabaseSink, DatabaseSinkConfig

HOURS = 50
VIEWS = (
    (),
    ("outcome", "status", "endpoint"),
    ("model",),
    ("host", "hostKey"),
    ("relayKey", "policy"),
    ("model", "hostKey"),
    ("model", "relayKey"),
)


def at_other_prices(records: list[UsageRecord]) -> list[UsageRecord]:
    return [
        msgspec.structs.replace(
            one, cost_nanos=1000 + place, currency="CHF", unpriced=place % 5 == 0
        )
        for place, one in enumerate(records)
    ]


def over_days() -> list[UsageRecord]:
    return [
        msgspec.structs.replace(one, started_at=timestamp(3600 * (place % HOURS)))
        for place, one in enumerate(varied_records(120))
    ]


async def test_every_sum_follows_a_correction_even_to_another_currency(sink: DatabaseSink) -> None:
    corrected = at_other_prices(records := over_days())
    await sink.write(records)
    before = {view: await sink.summarize(UsageQuery(group_by=view)) for view in VIEWS}
    assert await sink.correct(corrected) == len(records)
    expected = sum(one.cost_nanos or 0 for one in corrected)
    unpriced = sum(one.unpriced for one in corrected)
    sink._answers.exact = 0
    for view in VIEWS:
        rows = await sink.summarize(UsageQuery(group_by=view))
        assert sum(row.cost_nanos.get("CHF", 0) for row in rows) == expected
        assert not any(row.cost_nanos.get("USD") or row.cost_nanos.get("EUR") for row in rows)
        assert sum(row.unpriced for row in rows) == unpriced
        shown = {tuple(row.group.values()): (row.requests, row.errors, row.tokens) for row in rows}
        assert shown == {
            tuple(row.group.values()): (row.requests, row.errors, row.tokens)
            for row in before[view]
        }


async def test_hours_and_days_follow_a_correction(sink: DatabaseSink) -> None:
    corrected = at_other_prices(records := over_days())
    await sink.write(records)
    await sink.correct(corrected)
    sink._answers.exact = 0
    intervals: tuple[tuple[Interval, int], ...] = (("hour", 13), ("day", 10))
    for interval, digits in intervals:
        points = await sink.timeseries(SeriesQuery(interval=interval))
        found = {point.start[:digits]: point.row.cost_nanos["CHF"] for point in points}
        expected: dict[str, int] = {}
        for one in corrected:
            step = one.started_at[:digits]
            expected[step] = expected.get(step, 0) + (one.cost_nanos or 0)
        assert found == expected


async def test_what_no_column_can_hold_is_corrected_too(sink: DatabaseSink) -> None:
    record = usage_record(cost_nanos=2**70, pricing_id="p" * 400, units={"images": 3})
    await sink.write([record])
    for changed in (
        msgspec.structs.replace(record, cost_nanos=5, pricing_id="q" * 500),
        msgspec.structs.replace(record, cost_nanos=2**80, pricing_id=None, pricing_version=None),
        msgspec.structs.replace(record, cost_nanos=None, currency=None, unpriced=True),
        record,
    ):
        assert await sink.correct([changed]) == 1
        assert await sink.get(record.request_id) == changed


async def test_records_without_the_usual_id_are_not_there_to_be_corrected(
    sink: DatabaseSink,
) -> None:
    assert await sink.correct([usage_record(request_id="no id at all' --"), usage_record()]) == 0


async def test_corrections_beside_writers_of_other_processes_lose_nothing(
    sink: DatabaseSink, tables_url: str, tmp_path: Path
) -> None:
    records = [usage_record(started_at=timestamp(place)) for place in range(600)]
    await sink.write(records[:300])
    context = plugin_context(tmp_path, plugin="database", database_url=tables_url)
    other = DatabaseSink(DatabaseSinkConfig(), context)
    await other.aopen()
    try:
        await asyncio.gather(
            *(other.write(records[first : first + 20]) for first in range(300, 600, 20)),
            *(sink.correct(at_other_prices(records[n : n + 30])) for n in range(0, 300, 30)),
            *(other.correct(at_other_prices(records[n : n + 30])) for n in range(0, 300, 30)),
        )
    finally:
        await other.aclose()
        await context.aclose()
    sink._answers.exact = 0
    (row,) = await sink.summarize(UsageQuery())
    assert row.requests == 600
    assert row.cost_nanos == {"USD": 300 * 1500, "CHF": 10 * sum(range(1000, 1030))}
