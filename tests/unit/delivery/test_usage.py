"""Records reach each sink in batches, whatever another sink does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from relay_gateway.catalog.pricing import SCALE
from relay_gateway.catalog.snapshot import Pricing
from relay_gateway.delivery import usage as module
from relay_gateway.delivery.usage import UsageDelivery
from relay_gateway.ids import new_id
from relay_gateway.plugin import PluginConfig, UsageRecord, UsageSink
from relay_gateway.testing.context import plugin_context


class ListSink(UsageSink[PluginConfig]):
    """Keeps records in a list; fails as often as told, and hangs while ``gate`` is clear."""

    name = "list"

    def __init__(self, directory: Path, failures: int = 0) -> None:
        super().__init__(PluginConfig(), plugin_context(directory))
        self.failures = failures
        self.batches: list[list[UsageRecord]] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.wrote = asyncio.Event()

    async def write(self, records: Sequence[UsageRecord]) -> None:
        await self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise ConnectionError("down")
        self.batches.append(list(records))
        self.wrote.set()

    @property
    def records(self) -> list[UsageRecord]:
        return [record for batch in self.batches for record in batch]


def record(**more: object) -> UsageRecord:
    return UsageRecord(request_id=new_id(), started_at="2026-01-01T00:00:00.000Z", **more)  # type: ignore[arg-type]


def deliver(*sinks: ListSink) -> tuple[UsageDelivery, list[str]]:
    failures: list[str] = []
    named = [(f"sink{index}", sink) for index, sink in enumerate(sinks)]
    delivery = UsageDelivery(named, lambda name, error: failures.append(name))
    delivery.start()
    return delivery, failures


async def test_records_arrive_in_order_in_few_batches(tmp_path: Path) -> None:
    sink = ListSink(tmp_path)
    delivery, _ = deliver(sink)
    sent = [record() for _ in range(1200)]
    for one in sent:
        delivery.put(one, None)
    await delivery.aclose(5)
    assert [r.request_id for r in sink.records] == [r.request_id for r in sent]
    assert [len(batch) for batch in sink.batches] == [500, 500, 200]


async def test_cost_is_added_on_the_way(tmp_path: Path) -> None:
    sink = ListSink(tmp_path)
    delivery, _ = deliver(sink)
    pricing = Pricing("p", "p", "EUR", {"tokens.input": ((0, 2000 * SCALE),)})
    delivery.put(record(tokens={"input": 3}), pricing)
    delivery.put(record(tokens={"input": 3}), None)
    await delivery.aclose(5)
    priced, unpriced = sink.records
    assert (priced.cost_nanos, priced.currency, priced.unpriced) == (6000, "EUR", False)
    assert (unpriced.cost_nanos, unpriced.currency, unpriced.unpriced) == (None, None, True)


async def test_f16_a_failing_sink_gets_everything_once_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "FIRST_RETRY", 0.001)
    sink = ListSink(tmp_path, failures=3)
    delivery, failures = deliver(sink)
    delivery.put(record(), None)
    await asyncio.wait_for(sink.wrote.wait(), 5)
    assert (len(sink.records), failures) == (1, ["sink0"] * 3)
    await delivery.aclose(5)


async def test_f17_a_sink_that_hangs_delays_only_its_own_line(tmp_path: Path) -> None:
    slow, quick = ListSink(tmp_path), ListSink(tmp_path)
    slow.gate.clear()
    delivery, _ = deliver(slow, quick)
    delivery.put(record(), None)
    await asyncio.wait_for(quick.wrote.wait(), 5)
    assert slow.records == []
    assert delivery.lines[0].depth == 1
    slow.gate.set()
    await delivery.aclose(5)
    assert len(slow.records) == 1


async def test_beyond_the_capacity_the_oldest_go_and_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CAPACITY", 3)
    sink = ListSink(tmp_path)
    delivery, _ = deliver(sink)
    sent = [record() for _ in range(5)]
    for one in sent:
        delivery.put(one, None)
    await delivery.aclose(5)
    assert sink.records[0].request_id == sent[2].request_id
    assert delivery.lines[0].dropped == 2


async def test_f22_the_end_does_not_wait_for_a_dead_sink(tmp_path: Path) -> None:
    sink = ListSink(tmp_path)
    sink.gate.clear()
    delivery, _ = deliver(sink)
    delivery.put(record(), None)
    await asyncio.wait_for(delivery.aclose(0.05), 2)
    assert sink.records == []
