"""A series of its largest groups: the rest is exactly what the groups left out have."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest

from relay_gateway.plugin import Interval, SeriesQuery, UsagePoint, UsageRecord, UsageRow
from relay_gateway.testing.records import timestamp, usage_record, varied_records
from relay_gateway.testing.usage_figures import assert_totals
from relay_gateway_log_database import DatabaseSink

DAY = 86_400
FROM_SUMS, FROM_ROWS = 0, 10_000
"""Up to how many requests rows are asked."""
GROUPINGS = (("model",), ("policy",), ("hostKey",), ("model", "relayKey"), ("tag:team",))
PERIODS = (
    (None, None),
    (timestamp(1800.5), timestamp(3 * DAY + 2000)),
    (timestamp(DAY), timestamp(DAY + 3600)),
    (timestamp(9 * DAY), None),
)
ERROR = 2**0.5
"""How far off percentiles from histograms may be."""

Name = tuple[str, ...]
REST: Name = ()


@pytest.fixture
async def records(sink: DatabaseSink) -> Sequence[UsageRecord]:
    """Four days of records, in the sink."""
    dice = random.Random(7)
    made = [
        msgspec.structs.replace(record, started_at=timestamp(dice.uniform(0, 4 * DAY)))
        for record in varied_records(300)
    ]
    await sink.write(made)
    return made


def folded(points: Sequence[UsagePoint], top: int) -> dict[tuple[str, Name], Counter[str]]:
    """What can be added up of a series of all groups, by step and group."""
    sizes: Counter[Name] = Counter()
    for point in points:
        sizes[named(point.row)] += point.row.requests
    own = sorted(sizes, key=lambda name: (-sizes[name], name))[:top]
    found: dict[tuple[str, Name], Counter[str]] = {}
    for point in points:
        name = named(point.row)
        key = (point.start, name if name in own else REST)
        found.setdefault(key, Counter()).update(countable(point.row))
    return found


def named(row: UsageRow) -> Name:
    return tuple(value or "" for value in row.group.values())


def countable(row: UsageRow) -> Counter[str]:
    counts = {"requests": row.requests, "errors": row.errors, "unpriced": row.unpriced}
    return +Counter({**counts, **row.tokens, **row.cost_nanos})


@pytest.mark.parametrize("exact", [FROM_SUMS, FROM_ROWS], ids=["sums", "rows"])
@pytest.mark.parametrize("group_by", GROUPINGS, ids="+".join)
@pytest.mark.usefixtures("records")
async def test_the_rest_is_the_sum_of_all_groups_left_out(
    sink: DatabaseSink, group_by: tuple[str, ...], exact: int
) -> None:
    sink._answers.exact = exact
    intervals: tuple[Interval, ...] = ("minute", "hour", "day")
    for interval in intervals:
        for start, end in PERIODS:
            query = SeriesQuery(group_by=group_by, interval=interval, start=start, end=end)
            everything = await sink.timeseries(query)
            for top in (1, 3, 1000):
                points = await sink.timeseries(msgspec.structs.replace(query, top=top))
                found = {(point.start, named(point.row)): countable(point.row) for point in points}
                assert len(found) == len(points)
                assert all(point.other == (named(point.row) == REST) for point in points)
                assert found == folded(everything, top)


@pytest.mark.parametrize("exact", [FROM_SUMS, FROM_ROWS], ids=["sums", "rows"])
async def test_durations_of_the_rest_are_those_of_its_requests(
    sink: DatabaseSink, records: Sequence[UsageRecord], exact: int
) -> None:
    sink._answers.exact = exact
    query = SeriesQuery(group_by=("model",), interval="day", top=2)
    points = await sink.timeseries(query)
    own = {point.row.group["model"] for point in points if not point.other}
    for point in points:
        if point.other:
            members = [
                record
                for record in records
                if record.model_id not in own and record.started_at[:10] == point.start[:10]
            ]
            assert_totals(point.row, members, ERROR if exact == FROM_SUMS else 1.0)
    assert sum(point.other for point in points) == 4


@pytest.mark.parametrize("exact", [FROM_SUMS, FROM_ROWS], ids=["sums", "rows"])
async def test_filters_hold_for_the_rest_too(
    sink: DatabaseSink, records: Sequence[UsageRecord], exact: int
) -> None:
    sink._answers.exact = exact
    equals = {"policyId": "policy-1"}
    query = SeriesQuery(group_by=("relayKey",), interval="day", top=1, equals=equals)
    points = await sink.timeseries(query)
    wanted = [record for record in records if record.policy_id == "policy-1"]
    assert sum(point.row.requests for point in points) == len(wanted)
    assert {point.other for point in points} == {False, True}


async def test_a_series_without_groups_has_no_rest(
    sink: DatabaseSink, records: Sequence[UsageRecord]
) -> None:
    for exact in (FROM_SUMS, FROM_ROWS):
        sink._answers.exact = exact
        points = await sink.timeseries(SeriesQuery(interval="day", top=1))
        assert [point.other for point in points] == [False] * 4
        assert sum(point.row.requests for point in points) == len(records)


async def test_a_figure_that_no_sum_can_hold_leaves_no_negative_rest(sink: DatabaseSink) -> None:
    huge = (1 << 53) - 1
    batch = [
        usage_record(model_id=model, tokens={"input": huge}, cost_nanos=huge)
        for model in ("large", "small")
        for _ in range(700 if model == "large" else 600)
    ]
    await sink.write(batch)
    sink._answers.exact = FROM_SUMS
    points = await sink.timeseries(SeriesQuery(group_by=("model",), top=1))
    (rest,) = [point.row for point in points if point.other]
    assert rest.requests == 600
    assert all(value > 0 for value in (*rest.tokens.values(), *rest.cost_nanos.values()))
