"""What a usage sink promises, and what one that can be read from promises besides."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import datetime

import msgspec
import pytest

from relay_gateway.ids import new_id
from relay_gateway.plugin import (
    LOG_DIMENSIONS,
    LOG_FILTERS,
    Interval,
    LogPage,
    LogQuery,
    SeriesQuery,
    UsagePoint,
    UsageQuery,
    UsageReader,
    UsageRecord,
    UsageSink,
)
from relay_gateway.testing.records import (
    matches,
    newest_first,
    timestamp,
    usage_record,
    varied_records,
)
from relay_gateway.testing.usage_figures import assert_totals, group_of

MakeSink = Callable[[], UsageSink]
MAX_PAGES = 1000
ODD_RECORDS = (
    usage_record(tags={"a'b\"c": "%_\\", "": "", "ü": "😀"}),
    usage_record(tokens={"input": 0, "output": 2**62, "cacheWrite1h": 1}, units={"images": 3}),
    usage_record(cost_nanos=2**63 - 1, currency="JPY"),
    usage_record(user_agent="x" * 4096, requested_model="a/b.c:d@e", client_ip="2001:db8::1"),
    UsageRecord(request_id=new_id(), started_at=timestamp(5)),
)
QUERIES = (
    LogQuery(equals={"streamed": True, "mode": "proxy"}),
    LogQuery(tags={"team": "team-1"}),
    LogQuery(tags={"team": "absent"}),
    LogQuery(tags={"absent": "team-1"}),
    LogQuery(start=timestamp(5)),
    LogQuery(end=timestamp(5)),
    LogQuery(start=timestamp(5), end=timestamp(6)),
    LogQuery(start=timestamp(6), end=timestamp(5)),
    LogQuery(text="acme-3"),
    LogQuery(text="rate_limit"),
    LogQuery(text="acme%"),
    LogQuery(text="acme_"),
    LogQuery(text="' OR 1=1 --"),
    LogQuery(text="acme", tags={"team": "team-2"}, equals={"status": 200}),
)
"""Conditions alone and together, with the characters that SQL treats specially."""
INTERVALS: dict[Interval, str] = {
    "minute": "%Y-%m-%dT%H:%M",
    "hour": "%Y-%m-%dT%H",
    "day": "%Y-%m-%d",
}
"""What records of one step have in common at the beginning of their times."""
BAD_CURSORS = ("", "x", "AAAA", "' --", "e30=")


class UsageSinkConformance:
    """Subclass and provide ``make_sink``; override ``stored`` for a sink that does not read."""

    @pytest.fixture
    def make_sink(self) -> MakeSink:
        """Makes a sink, not opened yet, over the same storage each time."""
        raise NotImplementedError

    @pytest.fixture
    async def sink(self, make_sink: MakeSink) -> AsyncIterator[UsageSink]:
        """An opened sink."""
        sink = make_sink()
        await sink.aopen()
        yield sink
        await sink.aclose()

    async def stored(self, sink: UsageSink) -> Sequence[UsageRecord]:
        """Everything in the storage of ``sink``, in any order."""
        return await _read_all(_reader(sink), LogQuery())

    async def test_it_bears_being_closed_unopened_and_twice(self, make_sink: MakeSink) -> None:
        sink = make_sink()
        await sink.aclose()
        await sink.aopen()
        await sink.aclose()
        await sink.aclose()

    async def test_an_empty_batch_is_nothing(self, sink: UsageSink) -> None:
        await sink.write([])
        assert list(await self.stored(sink)) == []

    async def test_a_batch_is_stored_unchanged(self, sink: UsageSink) -> None:
        records = [*varied_records(), *ODD_RECORDS]
        await sink.write(records)
        _assert_same(await self.stored(sink), records)

    async def test_a_second_arrival_changes_nothing(self, sink: UsageSink) -> None:
        first, second, third = records = varied_records(3)
        await sink.write([first, second])
        await sink.write([first, second])
        await sink.write([second, third, third])
        _assert_same(await self.stored(sink), records)

    async def test_the_first_arrival_is_the_one_that_counts(self, sink: UsageSink) -> None:
        record = usage_record(status=200)
        await sink.write([record])
        await sink.write([msgspec.structs.replace(record, status=500)])
        _assert_same(await self.stored(sink), [record])

    async def test_writers_at_once_lose_and_double_nothing(self, sink: UsageSink) -> None:
        records = varied_records(40)
        batches = [records[start : start + 10] for start in range(0, 40, 5)]
        await asyncio.gather(*(sink.write(batch) for batch in batches))
        _assert_same(await self.stored(sink), records)

    async def test_a_large_batch_is_taken(self, sink: UsageSink) -> None:
        records = varied_records(2000)
        await sink.write(records)
        assert len(await self.stored(sink)) == len(records)

    async def test_what_was_written_outlives_the_sink(self, make_sink: MakeSink) -> None:
        records = varied_records(5)
        first = make_sink()
        await first.aopen()
        await first.write(records)
        await first.aclose()
        second = make_sink()
        await second.aopen()
        try:
            _assert_same(await self.stored(second), records)
        finally:
            await second.aclose()


class UsageReaderConformance(UsageSinkConformance):
    """Besides the promises of a sink: one that declares ``reads = True`` answers queries.

    Override ``percentile_error`` for one whose percentiles are approximate.
    """

    percentile_error: float = 1.0
    """The factor by which a percentile may lie beyond its neighbours, and how many milliseconds
    it may be off at least where it is more than 1."""

    @pytest.fixture
    async def filled(self, sink: UsageSink) -> tuple[UsageReader, list[UsageRecord]]:
        """A reader with records that differ in every filter and dimension."""
        records = varied_records()
        await sink.write(records)
        return _reader(sink), records

    async def test_one_record_is_found_by_its_id(
        self, filled: tuple[UsageReader, list[UsageRecord]]
    ) -> None:
        reader, records = filled
        assert await reader.get(records[3].request_id) == records[3]
        assert await reader.get(new_id()) is None, "an id that was never written gives None"
        assert await reader.get("no id at all' --") is None

    async def test_pages_hold_every_record_once_newest_first(
        self, filled: tuple[UsageReader, list[UsageRecord]]
    ) -> None:
        reader, records = filled
        expected = [record.request_id for record in newest_first(records)]
        for limit in (1, 7, len(records), 100):
            pages = [page async for page in _pages(reader, LogQuery(limit=limit))]
            longest = max(len(page.items) for page in pages)
            assert longest <= limit, f"a page of {longest} records where {limit} were asked for"
            shown = [record.request_id for page in pages for record in page.items]
            assert shown == expected, (
                f"pages of {limit} together must be all records, newest first, equal times by "
                "descending id"
            )

    async def test_new_records_do_not_disturb_who_pages(
        self, sink: UsageSink, filled: tuple[UsageReader, list[UsageRecord]]
    ) -> None:
        reader, records = filled
        first = await reader.query(LogQuery(limit=10))
        await sink.write([usage_record(started_at=timestamp(10_000))])
        query = LogQuery(limit=100, cursor=first.next_cursor)
        shown = [*first.items, *(await reader.query(query)).items]
        assert shown == newest_first(records)

    async def test_each_filter_gives_exactly_its_records(
        self, filled: tuple[UsageReader, list[UsageRecord]]
    ) -> None:
        for field in sorted(LOG_FILTERS):
            values = {msgspec.to_builtins(record)[field] for record in filled[1]} - {None}
            for value in sorted(values)[:5]:
                await _assert_answer(*filled, LogQuery(equals={field: value}))
            if field not in ("streamed", "unpriced"):
                nothing = 499 if field == "status" else "absent"
                await _assert_answer(*filled, LogQuery(equals={field: nothing}))

    async def test_conditions_hold_together(
        self, filled: tuple[UsageReader, list[UsageRecord]]
    ) -> None:
        for query in QUERIES:
            await _assert_answer(*filled, query)

    async def test_a_cursor_that_no_page_gave_is_refused(
        self, filled: tuple[UsageReader, list[UsageRecord]]
    ) -> None:
        for cursor in BAD_CURSORS:
            with pytest.raises(ValueError, match="cursor"):
                await filled[0].query(LogQuery(cursor=cursor))

    async def test_without_groups_there_is_one_total(
        self, filled: tuple[UsageReader, list[UsageRecord]]
    ) -> None:
        reader, records = filled
        (row,) = await reader.summarize(UsageQuery())
        assert_totals(row, records, self.percentile_error)

    async def test_each_dimension_divides_the_records(
        self, filled: tuple[UsageReader, list[UsageRecord]]
    ) -> None:
        reader, records = filled
        for dimension in (*LOG_DIMENSIONS, "tag:team"):
            rows = await reader.summarize(UsageQuery(group_by=(dimension,)))
            groups = defaultdict(list)
            for record in records:
                groups[group_of(record, dimension)].append(record)
            assert {row.group[dimension] for row in rows} == set(groups), f"groups of {dimension}"
            for row in rows:
                assert_totals(row, groups[row.group[dimension]], self.percentile_error)
            sizes = [row.requests for row in rows]
            assert sizes == sorted(sizes, reverse=True), "the group with most requests comes first"

    async def test_groups_combine_and_obey_the_conditions(
        self, filled: tuple[UsageReader, list[UsageRecord]]
    ) -> None:
        reader, records = filled
        rows = await reader.summarize(
            UsageQuery(
                group_by=("model", "tag:team"),
                start=timestamp(3),
                end=timestamp(15),
                equals={"outcome": "ok"},
            )
        )
        wanted = LogQuery(start=timestamp(3), end=timestamp(15), equals={"outcome": "ok"})
        expected = Counter(
            (record.model_id, record.tags.get("team"))
            for record in records
            if matches(record, wanted)
        )
        assert {(row.group["model"], row.group["tag:team"]): row.requests for row in rows} == dict(
            expected
        )

    async def test_totals_obey_tags(self, filled: tuple[UsageReader, list[UsageRecord]]) -> None:
        reader, records = filled
        chosen = [record for record in records if record.tags.get("team") == "team-1"]
        query = UsageQuery(tags={"team": "team-1"}, group_by=("relayKey",))
        rows = await reader.summarize(query)
        expected = Counter(record.relay_key_id for record in chosen)
        assert {row.group["relayKey"]: row.requests for row in rows} == dict(expected)
        assert list(await reader.summarize(UsageQuery(tags={"team": "absent"}))) == []

    async def test_a_series_is_totals_per_step_oldest_first(self, sink: UsageSink) -> None:
        # Some share a minute, an hour or a day, and most steps in between are empty.
        offsets = (0, 30, 59, 60, 3599, 3600, 7300, 86_399, 86_400, 90_000)
        records = [
            usage_record(started_at=timestamp(offset), model_id=f"model-{place % 2}", ttft_ms=None)
            for place, offset in enumerate(offsets)
        ]
        await sink.write(records)
        for interval, form in INTERVALS.items():
            await self._assert_series(_reader(sink), records, interval, form)

    async def _assert_series(
        self, reader: UsageReader, records: Sequence[UsageRecord], interval: Interval, form: str
    ) -> None:
        query = SeriesQuery(
            interval=interval, group_by=("model",), start=timestamp(30), end=timestamp(90_000)
        )
        inside = LogQuery(start=query.start, end=query.end)
        groups = defaultdict(list)
        for record in records:
            if matches(record, inside):
                groups[_step_of(record, form), record.model_id].append(record)
        points = await reader.timeseries(query)
        shown = [datetime.fromisoformat(point.start) for point in points]
        assert shown == sorted(shown), "the oldest step comes first"
        found = {(_step_in(point, form), point.row.group["model"]): point.row for point in points}
        assert found.keys() == groups.keys(), f"steps of a {interval} and their groups"
        assert len(points) == len(found), "one point for each step and group"
        for key, row in found.items():
            assert_totals(row, groups[key], self.percentile_error)

    async def test_a_series_of_the_largest_groups_has_all_others_in_one(
        self, sink: UsageSink
    ) -> None:
        # Equal ones are in the order of their names, and no model is a group like others.
        ranked = ["model-2", "model-0", "model-1", "model-3", None]
        models = [ranked[place] for place, size in enumerate((5, 4, 2, 2, 1)) for _ in range(size)]
        records = [
            usage_record(started_at=timestamp(place % 3 * 3600 + place), model_id=model)
            for place, model in enumerate(models)
        ]
        await sink.write(records)
        for interval, form in INTERVALS.items():
            for top in (1, 3, 4, 5, 9):
                points = await _reader(sink).timeseries(
                    SeriesQuery(interval=interval, group_by=("model",), top=top)
                )
                groups = defaultdict(list)
                for record in records:
                    rest = record.model_id not in ranked[:top]
                    key = (_step_of(record, form), rest, None if rest else record.model_id)
                    groups[key].append(record)
                found = {
                    (_step_in(point, form), point.other, point.row.group.get("model")): point.row
                    for point in points
                }
                assert found.keys() == groups.keys(), f"the {top} largest groups, and the rest"
                assert len(points) == len(found), "the rest has one point per step"
                steps = [(_step_in(point, form), point.other) for point in points]
                assert steps == sorted(steps), "the rest comes last in each step"
                assert all(bool(point.row.group) != point.other for point in points)
                for key, row in found.items():
                    assert_totals(row, groups[key], self.percentile_error)

    async def test_a_correction_changes_prices_and_totals_and_nothing_else(
        self, filled: tuple[UsageReader, list[UsageRecord]]
    ) -> None:
        reader, records = filled
        corrected = [_repriced(one) if place % 4 else one for place, one in enumerate(records)]
        if not _corrects(reader):
            with pytest.raises(NotImplementedError):
                await reader.correct(corrected)
            return
        # Only prices are taken over, and nothing becomes of what was never written.
        sent = [msgspec.structs.replace(one, status=599, tokens={"input": 9}) for one in corrected]
        expected = sum(place % 4 > 0 for place in range(len(records)))
        assert await reader.correct([*sent, usage_record(cost_nanos=1)]) == expected
        _assert_same(await _read_all(reader, LogQuery()), corrected)
        for dimension in ("model", "outcome", "relayKey", "hostKey", "tag:team"):
            for row in await reader.summarize(UsageQuery(group_by=(dimension,))):
                value = row.group[dimension]
                members = [one for one in corrected if group_of(one, dimension) == value]
                assert_totals(row, members, self.percentile_error)

    async def test_corrections_at_once_and_once_more_count_once(
        self, filled: tuple[UsageReader, list[UsageRecord]]
    ) -> None:
        reader, records = filled
        if not _corrects(reader):
            return
        corrected = [_repriced(one) for one in records]
        changed = await asyncio.gather(*(reader.correct(corrected) for _ in range(4)))
        assert sum(changed) == len(records)
        assert await reader.correct(corrected) == 0, "nothing is left to be changed"
        (row,) = await reader.summarize(UsageQuery())
        assert_totals(row, corrected, self.percentile_error)

    async def test_an_unknown_dimension_is_refused_by_name(
        self, filled: tuple[UsageReader, list[UsageRecord]]
    ) -> None:
        with pytest.raises(ValueError, match="colour"):
            await filled[0].summarize(UsageQuery(group_by=("colour",)))


def _corrects(reader: UsageReader) -> bool:
    return isinstance(reader, UsageSink) and reader.corrects


def _repriced(record: UsageRecord) -> UsageRecord:
    """The record with a sheet of a later version, and with a price where it had none."""
    return msgspec.structs.replace(
        record,
        cost_nanos=(record.cost_nanos or 0) + 17,
        currency=record.currency or "USD",
        unpriced=False,
        pricing_id="sheet-later",
        pricing_version=2,
    )


def _reader(sink: UsageSink) -> UsageReader:
    assert sink.reads, "the sink does not declare reads = True: override stored() in this suite"
    assert isinstance(sink, UsageReader), "a sink with reads = True is a UsageReader too"
    return sink


async def _pages(reader: UsageReader, query: LogQuery) -> AsyncIterator[LogPage]:
    for _ in range(MAX_PAGES):
        page = await reader.query(query)
        yield page
        if page.next_cursor is None:
            return
        query = msgspec.structs.replace(query, cursor=page.next_cursor)
    raise AssertionError(f"{MAX_PAGES} pages and still a next_cursor: does it ever end?")


async def _read_all(reader: UsageReader, query: LogQuery) -> list[UsageRecord]:
    return [record async for page in _pages(reader, query) for record in page.items]


async def _assert_answer(
    reader: UsageReader, records: Iterable[UsageRecord], query: LogQuery
) -> None:
    expected = [record for record in newest_first(records) if matches(record, query)]
    answered = await _read_all(reader, query)
    assert [one.request_id for one in answered] == [one.request_id for one in expected], (
        f"{query} gave {len(answered)} records, by the definition of LogQuery it is {len(expected)}"
    )


def _assert_same(stored: Sequence[UsageRecord], written: Sequence[UsageRecord]) -> None:
    counted = Counter(record.request_id for record in stored)
    doubled = [one for one, times in counted.items() if times > 1]
    assert doubled == [], "records are stored twice; request_id is unique"
    by_id = {record.request_id: record for record in stored}
    lost = [one.request_id for one in written if one.request_id not in by_id]
    assert lost == [], f"{len(lost)} of {len(written)} records are lost"
    for record in written:
        assert by_id[record.request_id] == record, "a record came back changed"
    assert len(stored) == len(written), "the storage holds records that nobody wrote"


def _step_in(point: UsagePoint, form: str) -> str:
    return f"{datetime.fromisoformat(point.start):{form}}"


def _step_of(record: UsageRecord, form: str) -> str:
    return f"{datetime.fromisoformat(record.started_at):{form}}"
