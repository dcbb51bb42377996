"""What totals of usage records have to be, reckoned from the records themselves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec
import pytest

from relay_gateway.plugin import LOG_DIMENSIONS, UsageRecord, UsageRow

FIGURES = {"avg", "p50", "p95", "p99"}


def group_of(record: UsageRecord, dimension: str) -> str | None:
    """What ``record`` has for a name of ``group_by``."""
    if dimension.startswith("tag:"):
        return record.tags.get(dimension.removeprefix("tag:"))
    value = msgspec.to_builtins(record)[LOG_DIMENSIONS[dimension]]
    return None if value is None else str(value)


def assert_totals(row: UsageRow, records: Sequence[UsageRecord], error: float) -> None:
    """Holds ``row`` to ``records``; percentiles may lie ``error`` times as far away, and a
    millisecond where that is more than 1."""
    tokens: Counter[str] = Counter()
    cost: Counter[str] = Counter()
    for record in records:
        tokens.update(record.tokens)
        if record.cost_nanos is not None and record.currency is not None:
            cost[record.currency] += record.cost_nanos
    assert row.requests == len(records)
    assert row.errors == sum(record.outcome != "ok" for record in records)
    assert row.unpriced == sum(record.unpriced for record in records)
    assert +Counter(row.tokens) == +tokens
    assert +Counter(row.cost_nanos) == +cost, "money is summed per currency, never across"
    _assert_timing(row.duration_ms, [record.duration_ms for record in records], error)
    first_tokens = [record.ttft_ms for record in records if record.ttft_ms is not None]
    _assert_timing(row.ttft_ms, first_tokens, error)


def _assert_timing(figures: dict[str, float | None], values: Sequence[float], error: float) -> None:
    assert set(figures) == FIGURES
    if not values:
        assert set(figures.values()) == {None}, "without any value there is no figure, not 0"
        return
    ordered = sorted(values)
    assert figures["avg"] == pytest.approx(sum(values) / len(values))
    for percent in (50, 95, 99):
        # Between the two neighbours of the rank, so that any usual definition passes.
        rank = percent / 100 * len(ordered)
        low = ordered[max(0, int(rank) - 1)]
        high = ordered[min(len(ordered) - 1, int(rank) + 1)]
        figure = figures[f"p{percent}"]
        assert figure is not None
        slack = 1.0 if error > 1 else 0.0
        assert low / error - slack <= figure <= high * error + slack, (
            f"p{percent} is {figure}, not between {low} and {high}"
        )
