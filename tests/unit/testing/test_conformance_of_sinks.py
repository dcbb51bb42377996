"""The suite for usage sinks passes a sound sink and names what is wrong with a broken one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import msgspec
import pytest

from relay_gateway.plugin import (
    LogPage,
    LogQuery,
    PluginConfig,
    SeriesQuery,
    UsagePoint,
    UsageQuery,
    UsageRecord,
    UsageRow,
)
from relay_gateway.testing.conformance import UsageReaderConformance
from relay_gateway.testing.conformance.usage import MakeSink
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.memory_sink import MemoryUsageSink
from relay_gateway.testing.records import usage_record, varied_records

Check = Callable[[UsageReaderConformance, MemoryUsageSink], Awaitable[None]]


class TestMemorySink(UsageReaderConformance):
    @pytest.fixture
    def make_sink(self, tmp_path: Path) -> MakeSink:
        storage: dict[str, UsageRecord] = {}

        def make() -> MemoryUsageSink:
            sink = MemoryUsageSink(PluginConfig(), plugin_context(tmp_path))
            sink.records = storage
            return sink

        return make


class Overwriting(MemoryUsageSink):
    async def write(self, records: Sequence[UsageRecord]) -> None:
        self.records.update({record.request_id: record for record in records})


class Losing(MemoryUsageSink):
    async def write(self, records: Sequence[UsageRecord]) -> None:
        await super().write(records[:-1])


class Doubling(MemoryUsageSink):
    async def query(self, query: LogQuery) -> LogPage:
        page = await super().query(query)
        return LogPage(items=(*page.items, *page.items[:1]), next_cursor=page.next_cursor)


class OldestFirst(MemoryUsageSink):
    async def query(self, query: LogQuery) -> LogPage:
        page = await super().query(query)
        return LogPage(items=page.items[::-1], next_cursor=page.next_cursor)


class Unfiltered(MemoryUsageSink):
    async def query(self, query: LogQuery) -> LogPage:
        return await super().query(LogQuery(limit=query.limit, cursor=query.cursor))


class Endless(MemoryUsageSink):
    async def query(self, query: LogQuery) -> LogPage:
        page = await super().query(msgspec.structs.replace(query, cursor=None))
        return LogPage(items=page.items, next_cursor="again")


class CurrencyBlind(MemoryUsageSink):
    async def summarize(self, query: UsageQuery) -> Sequence[UsageRow]:
        rows = await super().summarize(query)
        return [
            msgspec.structs.replace(row, cost_nanos={"USD": sum(row.cost_nanos.values())})
            for row in rows
        ]


class Forgetful(MemoryUsageSink):
    async def timeseries(self, query: SeriesQuery) -> Sequence[UsagePoint]:
        return [point for point in await super().timeseries(query) if not point.other]


async def rewritten(suite: UsageReaderConformance, sink: MemoryUsageSink) -> None:
    await suite.test_the_first_arrival_is_the_one_that_counts(sink)


async def stored(suite: UsageReaderConformance, sink: MemoryUsageSink) -> None:
    await suite.test_a_batch_is_stored_unchanged(sink)


async def paged(suite: UsageReaderConformance, sink: MemoryUsageSink) -> None:
    await suite.test_pages_hold_every_record_once_newest_first(await filled(sink))


async def filtered(suite: UsageReaderConformance, sink: MemoryUsageSink) -> None:
    await suite.test_each_filter_gives_exactly_its_records(await filled(sink))


async def totalled(suite: UsageReaderConformance, sink: MemoryUsageSink) -> None:
    await suite.test_without_groups_there_is_one_total(await filled(sink))


async def in_steps(suite: UsageReaderConformance, sink: MemoryUsageSink) -> None:
    await suite.test_a_series_of_the_largest_groups_has_all_others_in_one(sink)


async def filled(sink: MemoryUsageSink) -> tuple[MemoryUsageSink, list[UsageRecord]]:
    records = varied_records()
    await sink.write(records)
    return sink, records


@pytest.mark.parametrize(
    ("broken", "check", "complaint"),
    [
        (Overwriting, rewritten, "came back changed"),
        (Losing, stored, "1 of .* records are lost"),
        (Doubling, stored, "stored twice"),
        (OldestFirst, paged, "newest first"),
        (Unfiltered, filtered, "by the definition of LogQuery"),
        (Endless, stored, "does it ever end"),
        (CurrencyBlind, totalled, "per currency"),
        (Forgetful, in_steps, "the 1 largest groups, and the rest"),
    ],
)
async def test_a_broken_sink_is_told_what_it_broke(
    broken: type[MemoryUsageSink], check: Check, complaint: str, tmp_path: Path
) -> None:
    sink = broken(PluginConfig(), plugin_context(tmp_path))
    with pytest.raises(AssertionError, match=complaint):
        await check(UsageReaderConformance(), sink)


async def test_a_failing_sink_keeps_nothing(tmp_path: Path) -> None:
    sink = MemoryUsageSink(PluginConfig(), plugin_context(tmp_path))
    sink.failure = OSError("disk full")
    with pytest.raises(OSError, match="disk full"):
        await sink.write([usage_record()])
    assert sink.records == {}
    assert sink.batches == []
