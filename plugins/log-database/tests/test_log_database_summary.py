"""Totals are what adding up the records by hand gives."""

from __future__ import annotations

import random
import statistics
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from relay_gateway.plugin import LOG_DIMENSIONS, UsageQuery, UsageRecord, UsageRow
from relay_gateway.testing.plugin_tests import new_id
from relay_gateway_log_database import DatabaseSink
from relay_gateway_log_database.rows import MAX_INTEGER
from relay_gateway_log_database.tables import METERS


def record(**fields: object) -> UsageRecord:
    plain = UsageRecord(request_id=new_id(), started_at="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(plain, **fields)


async def totals(sink: DatabaseSink, *group_by: str) -> Sequence[UsageRow]:
    return await sink.summarize(UsageQuery(group_by=group_by))


def percentile(values: Sequence[float], percent: int) -> float:
    """As PostgreSQL defines ``percentile_cont``."""
    if len(values) == 1:
        return values[0]
    return statistics.quantiles(values, n=100, method="inclusive")[percent - 1]


def many(count: int, seed: int) -> list[UsageRecord]:
    dice = random.Random(seed)
    return [
        record(
            model_id=dice.choice(["a", "b", None]),
            status=dice.choice([200, 200, 500]),
            outcome=dice.choice(["ok", "ok", "timeout"]),
            duration_ms=dice.random() * 1000,
            ttft_ms=dice.choice([None, dice.random() * 100]),
            tokens={"input": dice.randrange(1000), "cacheRead": dice.randrange(10)},
            cost_nanos=dice.choice([None, dice.randrange(10**12)]),
            currency=dice.choice(["USD", "EUR"]),
            unpriced=dice.random() < 0.3,
            tags=dice.choice([{}, {"team": "blue"}, {"team": "red", 'x"y': "1"}]),
        )
        for _ in range(count)
    ]


def cost_of(records: Sequence[UsageRecord]) -> dict[str, int]:
    cost: dict[str, int] = {}
    for item in records:
        if item.cost_nanos is not None and item.currency is not None:
            cost[item.currency] = cost.get(item.currency, 0) + item.cost_nanos
    return cost


def by_hand(group: dict[str, str | None], records: Sequence[UsageRecord]) -> UsageRow:
    return UsageRow(
        group=group,
        requests=len(records),
        errors=sum(item.outcome != "ok" for item in records),
        tokens={m: sum(r.tokens[m] for r in records) for m in ("input", "cacheRead")},
        cost_nanos=cost_of(records),
        unpriced=sum(item.unpriced for item in records),
        duration_ms=timing([item.duration_ms for item in records]),
        ttft_ms=timing([item.ttft_ms for item in records if item.ttft_ms is not None]),
    )


def timing(values: Sequence[float]) -> dict[str, Any]:
    if not values:
        return dict.fromkeys(("avg", "p50", "p95", "p99"))
    return {
        "avg": pytest.approx(statistics.fmean(values)),
        **{f"p{p}": pytest.approx(percentile(values, p)) for p in (50, 95, 99)},
    }


GROUPINGS: dict[tuple[str, ...], Callable[[UsageRecord], tuple[str | None, ...]]] = {
    (): lambda _: (),
    ("model",): lambda r: (r.model_id,),
    ("model", "outcome"): lambda r: (r.model_id, r.outcome),
    ("status", "tag:team"): lambda r: (str(r.status), r.tags.get("team")),
    ('tag:x"y',): lambda r: (r.tags.get('x"y'),),
}


@pytest.mark.parametrize("group_by", GROUPINGS, ids="+".join)
@pytest.mark.parametrize("count", [1, 2, 3, 21, 400])
async def test_totals_agree_with_adding_up_by_hand(
    sink: DatabaseSink, group_by: tuple[str, ...], count: int
) -> None:
    records = many(count, seed=count)
    await sink.write(records)
    groups: dict[tuple[str | None, ...], list[UsageRecord]] = {}
    for item in records:
        groups.setdefault(GROUPINGS[group_by](item), []).append(item)
    found = {tuple(row.group.values()): row for row in await totals(sink, *group_by)}
    assert found == {
        key: by_hand(dict(zip(group_by, key, strict=True)), items) for key, items in groups.items()
    }


async def test_the_busiest_group_comes_first(sink: DatabaseSink) -> None:
    models = ["few", *["many"] * 3, *["some"] * 2, "also-few"]
    await sink.write([record(model_id=model) for model in models])
    found = [row.group["model"] for row in await totals(sink, "model")]
    assert found == ["many", "some", "also-few", "few"]


async def test_without_records_there_are_no_totals(sink: DatabaseSink) -> None:
    assert await totals(sink) == []
    assert await totals(sink, "model") == []


async def test_a_meter_that_nobody_reported_is_absent_and_a_reported_zero_is_not(
    sink: DatabaseSink,
) -> None:
    await sink.write([record(tokens={"input": 0})])
    assert (await totals(sink))[0].tokens == {"input": 0}


async def test_every_priced_token_meter_is_summed(sink: DatabaseSink) -> None:
    tokens = {meter: position for position, meter in enumerate(METERS)}
    await sink.write([record(tokens=tokens), record(tokens=tokens)])
    assert (await totals(sink))[0].tokens == {meter: 2 * n for meter, n in tokens.items()}


async def test_sums_beyond_64_bits_are_exact(sink: DatabaseSink) -> None:
    largest = record(tokens={"input": MAX_INTEGER}, cost_nanos=MAX_INTEGER, currency="USD")
    again = msgspec.structs.replace(largest, request_id=new_id())
    await sink.write([largest, again, record(tokens={"input": 1})])
    row = (await totals(sink))[0]
    assert row.tokens == {"input": 2 * MAX_INTEGER + 1}
    assert row.cost_nanos == {"USD": 2 * MAX_INTEGER}


async def test_currencies_are_not_added_to_each_other(sink: DatabaseSink) -> None:
    await sink.write(
        [
            record(cost_nanos=1, currency="USD"),
            record(cost_nanos=2, currency="EUR"),
            record(cost_nanos=4, currency="USD"),
            record(),
        ]
    )
    row = (await totals(sink))[0]
    assert row.cost_nanos == {"USD": 5, "EUR": 2}
    assert row.requests == 4


async def test_the_period_and_filters_choose_what_is_added_up(sink: DatabaseSink) -> None:
    times = [f"2026-01-01T00:00:0{second}Z" for second in range(4)]
    await sink.write([record(started_at=t, model_id=m) for t in times for m in ("a", "b")])
    query = UsageQuery(start=times[1], end=times[3], equals={"modelId": "a"})
    assert [row.requests for row in await sink.summarize(query)] == [2]


@pytest.mark.parametrize("dimension", sorted(LOG_DIMENSIONS))
async def test_every_dimension_of_the_contract_can_be_grouped_by(
    sink: DatabaseSink, dimension: str
) -> None:
    await sink.write([record()])
    assert list((await totals(sink, dimension))[0].group) == [dimension]


async def test_a_dimension_named_twice_counts_once(sink: DatabaseSink) -> None:
    await sink.write([record(model_id="a")])
    assert [row.group for row in await totals(sink, "model", "model")] == [{"model": "a"}]


@pytest.mark.parametrize("dimension", ["colour", "", "tag:", "tag", "modelId", "tags:x"])
async def test_an_unknown_dimension_is_refused_naming_the_known_ones(
    sink: DatabaseSink, dimension: str
) -> None:
    with pytest.raises(ValueError, match=r"cannot be grouped by .* it can by model,.*tag:<name>"):
        await totals(sink, dimension)


@pytest.mark.parametrize(
    "query",
    [
        UsageQuery(equals={"colour": "x"}),
        UsageQuery(start="yesterday"),
        UsageQuery(equals={"status": "x"}),
    ],
)
async def test_a_summary_query_that_is_wrong_is_refused(
    sink: DatabaseSink, query: UsageQuery
) -> None:
    with pytest.raises(ValueError, match=r"filtered by|RFC 3339|whole number"):
        await sink.summarize(query)
