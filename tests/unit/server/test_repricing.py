"""Repricing all records of a sink: what is said, and what is corrected."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.repricing import PriceSheets
from relay_gateway.plugin import LogQuery, PluginConfig, UsageRecord
from relay_gateway.server.repricing import PAGE, reprice
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.memory_sink import MemoryUsageSink
from relay_gateway.testing.records import timestamp, usage_record

SHEET = EntityRow(
    id="sheet-1",
    kind="pricing",
    slug="sheet",
    display_name="Sheet",
    version=7,
    spec={
        "rates": [
            {"meter": "tokens.input", "amount": "1"},
            {"meter": "tokens.output", "amount": "2"},
        ]
    },
)
COST = 10 * 1000 + 5 * 2000
ALL = LogQuery()


@pytest.fixture
def sink(tmp_path: Path) -> MemoryUsageSink:
    return MemoryUsageSink(PluginConfig(), plugin_context(tmp_path))


@pytest.fixture
def seen() -> list[int]:
    """How many records the progress spoke of."""
    return []


def records() -> list[UsageRecord]:
    """More than one page: some have today's price, some none, and some no sheet any more."""
    kinds = (
        {"model_id": "a"},
        {"model_id": "a", "cost_nanos": COST},
        {"model_id": "b", "cost_nanos": None, "currency": None, "unpriced": True},
        {"model_id": "a", "pricing_id": "gone"},
    )
    number = PAGE + 200
    return [usage_record(started_at=timestamp(n), **kinds[n % 4]) for n in range(number)]


async def test_without_apply_it_is_said_what_would_change_and_nothing_does(
    sink: MemoryUsageSink, seen: list[int]
) -> None:
    await sink.write(made := records())
    found = await reprice(sink, PriceSheets([SHEET]), ALL, apply=False, progress=seen.append)
    quarter = len(made) // 4
    assert [(one.model, one.records, one.changed) for one in found.models] == [
        ("a", 3 * quarter, quarter),
        ("b", quarter, quarter),
    ]
    total = found.total
    assert (total.records, total.changed, total.without_sheet) == (len(made), 2 * quarter, quarter)
    assert (total.unpriced_before, total.unpriced_after) == (quarter, 0)
    assert total.cost_before == {"USD": quarter * (1500 + COST + 1500)}
    assert total.cost_after == {"USD": quarter * (3 * COST + 1500)}
    assert (found.corrected, seen) == (0, [PAGE])
    assert list(sink.records.values()) == made


async def test_applied_the_records_have_the_price_and_a_second_time_changes_nothing(
    sink: MemoryUsageSink, seen: list[int]
) -> None:
    await sink.write(made := records())
    sheets = PriceSheets([SHEET])
    first = await reprice(sink, sheets, ALL, apply=True, progress=seen.append)
    assert first.corrected == first.total.changed == len(made) // 2
    corrected = sink.records[made[2].request_id]
    assert (corrected.cost_nanos, corrected.pricing_version) == (COST, 7)
    assert sink.records[made[3].request_id] == made[3]
    second = await reprice(sink, sheets, ALL, apply=True, progress=seen.append)
    assert (second.corrected, second.total.changed) == (0, 0)
    assert second.total.cost_before == first.total.cost_after


async def test_only_the_wanted_time_is_repriced(sink: MemoryUsageSink, seen: list[int]) -> None:
    await sink.write(records())
    late = LogQuery(start=timestamp(PAGE + 190))
    found = await reprice(sink, PriceSheets([SHEET]), late, apply=True, progress=seen.append)
    assert (found.total.records, seen) == (10, [])
