"""Reading back over several files: order, limits, damage, and files that change meanwhile."""

from __future__ import annotations

import gzip
import secrets
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime
from pathlib import Path
from typing import BinaryIO
from uuid import UUID

import msgspec
import pytest

from relay_gateway.plugin import Interval, LogQuery, SeriesQuery, UsageQuery, UsageRecord
from relay_gateway.testing.plugin_tests import new_id
from relay_gateway.testing.records import EPOCH, timestamp, usage_record, varied_records
from relay_gateway_log_file import FileSink
from relay_gateway_log_file.folder import Segment

OpenSink = Callable[..., Awaitable[FileSink]]


def record_at(second: float) -> UsageRecord:
    """A record whose id tells when it began, as in the gateway."""
    milliseconds = int((EPOCH.timestamp() + second) * 1000)
    request_id = str(UUID(int=milliseconds << 80 | 7 << 76 | 1 << 63 | secrets.randbits(62)))
    return usage_record(request_id=request_id, started_at=timestamp(second))


async def hours(sink: FileSink, count: int) -> list[UsageRecord]:
    """A batch for each of ``count`` hours, all but the last one rotated and compressed."""
    records = [record_at(hour * 3600 + minute * 60) for hour in range(count) for minute in range(6)]
    for hour in range(count):
        await sink.write(records[hour * 6 : hour * 6 + 6])
    assert sink._upkeep is not None
    assert sink._upkeep._tidying is not None
    await sink._upkeep._tidying
    return records


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hours of the rotated files that were opened."""
    names: list[str] = []
    real = Segment.open

    def counted(segment: Segment) -> BinaryIO:
        names.append(segment.path.name[15:17])
        return real(segment)

    monkeypatch.setattr(Segment, "open", counted)
    return names


async def test_only_files_of_the_period_are_opened(open_sink: OpenSink, opened: list[str]) -> None:
    sink = await open_sink(max_bytes=4096)
    records = await hours(sink, 8)
    opened.clear()
    page = await sink.query(LogQuery(start=timestamp(2 * 3600), end=timestamp(4 * 3600)))
    assert page.items == tuple(reversed(records[12:24]))
    assert opened == ["03", "02"]
    opened.clear()
    (row,) = await sink.summarize(UsageQuery(start=timestamp(5 * 3600), end=timestamp(6 * 3600)))
    assert (row.requests, opened) == (6, ["05"])


async def test_a_page_that_is_full_does_not_go_back_further(
    open_sink: OpenSink, opened: list[str]
) -> None:
    sink = await open_sink(max_bytes=4096)
    records = await hours(sink, 8)
    opened.clear()
    first = await sink.query(LogQuery(limit=8))
    assert first.items == tuple(reversed(records[-8:]))
    assert opened == ["06"]
    opened.clear()
    second = await sink.query(LogQuery(limit=8, cursor=first.next_cursor))
    assert second.items == tuple(reversed(records[-16:-8]))
    assert opened == ["06", "05"]


async def test_a_record_is_looked_for_where_its_id_says_at_first(
    open_sink: OpenSink, opened: list[str]
) -> None:
    sink = await open_sink(max_bytes=4096)
    records = await hours(sink, 12)
    opened.clear()
    assert await sink.get(records[2 * 6].request_id) == records[2 * 6]
    assert opened == ["02"]
    assert await sink.get(new_id()) is None


async def test_a_request_that_took_long_is_found_in_the_file_of_its_end(
    open_sink: OpenSink,
) -> None:
    sink = await open_sink(max_bytes=4096)
    late = record_at(0)
    for hour in range(1, 6):
        await sink.write([record_at(hour * 3600 + second) for second in range(6)])
    await sink.write([late])
    await sink.write([record_at(6 * 3600 + second) for second in range(6)])
    page = await sink.query(LogQuery(end=timestamp(60)))
    assert page.items == (late,)
    assert await sink.get(late.request_id) == late


async def test_more_than_the_limit_is_refused_with_what_to_do(open_sink: OpenSink) -> None:
    sink = await open_sink(max_bytes=4096, read_bytes=16_000)
    await hours(sink, 8)
    for asked in (
        sink.query(LogQuery(equals={"errorCode": "never"})),
        sink.summarize(UsageQuery()),
    ):
        with pytest.raises(ValueError, match=r"more than 16000 bytes .*narrow it with from and to"):
            await asked
    assert len((await sink.query(LogQuery(limit=10))).items) == 10
    start = timestamp(6 * 3600)
    assert [row.requests for row in await sink.summarize(UsageQuery(start=start))] == [12]


async def test_f21_every_byte_of_a_file_may_be_damaged_and_the_other_records_are_read(
    open_sink: OpenSink, active: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = await open_sink()
    records = [usage_record(user_agent=None) for _ in range(100)]
    await sink.write(records)
    whole = active.read_bytes()
    line = whole.index(b"\n") + 1
    for place in range(40 * line, 41 * line):  # every line is alike
        damaged = bytearray(whole)
        damaged[place] ^= 0x80
        active.write_bytes(damaged)
        page = await sink.query(LogQuery(limit=1000))
        read = {record.request_id for record in page.items}
        spoilt = 2 if damaged[place] ^ 0x80 == ord("\n") else 1
        assert read >= {record.request_id for record in records} - {
            record.request_id for record in records[40 : 40 + spoilt]
        }
    assert "1 lines are damaged and left out" in caplog.text


async def test_f21_a_compressed_file_that_is_cut_short_is_read_as_far_as_it_goes(
    open_sink: OpenSink, active: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = await open_sink(max_bytes=4096)
    await hours(sink, 4)
    (middle,) = active.parent.glob("usage.20260101T01*.gz")
    middle.write_bytes(middle.read_bytes()[:-20])
    rows = await sink.summarize(UsageQuery())
    assert 18 <= rows[0].requests <= 24
    assert "cannot be read to its end" in caplog.text


async def test_f21_a_file_that_is_no_gzip_does_not_stop_writing_or_reading(
    open_sink: OpenSink, active: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = await open_sink(max_bytes=4096)
    await hours(sink, 3)
    for path in active.parent.glob("*.gz"):
        path.write_bytes(b"nothing of the kind")
    again = await open_sink(max_bytes=4096)
    await again.write([record_at(9 * 3600)])
    assert [row.requests for row in await again.summarize(UsageQuery())] == [7]
    assert "cannot be read to its end" in caplog.text


async def test_a_line_without_an_end_of_any_length_is_left_out(
    open_sink: OpenSink, active: Path
) -> None:
    record = usage_record()
    sink = await open_sink()
    await sink.write([record])
    line = active.read_bytes()
    rotated = active.with_name("usage.20260101T000000Z.20260101T000000Z.1.jsonl.gz")
    other = msgspec.json.encode(usage_record()) + b"\n"
    rotated.write_bytes(gzip.compress(b"x" * 9_000_000 + line.replace(b"\n", b"") + b"\n" + other))
    assert len((await sink.query(LogQuery())).items) == 2


async def test_files_that_vanish_or_rotate_during_a_read_do_not_disturb_it(
    open_sink: OpenSink, active: Path
) -> None:
    sink = await open_sink(max_bytes=4096)
    records = await hours(sink, 4)
    assert sink._archive is not None
    archive = sink._archive
    with archive.sources() as sources:
        await hours(sink, 2)  # what was written to is compressed now
        next(iter(active.parent.glob("usage.20260101T01*.gz"))).unlink()
        read = [b"".join(archive.pieces(source)).count(b"\n") for source in sources]
    assert read == [6, 6, 0, 6]
    assert len(records) == 24


async def test_text_is_found_in_any_case_and_in_these_fields_only(open_sink: OpenSink) -> None:
    sink = await open_sink()
    record = usage_record(requested_model="Acme-Großes-Modell", user_agent="needle")
    await sink.write([record])
    assert (await sink.query(LogQuery(text="GROSSES"))).items == ()
    assert (await sink.query(LogQuery(text="acme-groß"))).items == (record,)
    assert (await sink.query(LogQuery(text="needle"))).items == ()


@pytest.mark.parametrize(
    ("field", "value", "found"),
    [("streamed", "true", 20), ("status", "429", 9), ("status", 42, 0), ("mode", "proxy", 12)],
)
async def test_filters_take_values_as_text_too(
    open_sink: OpenSink, field: str, value: str, found: int
) -> None:
    sink = await open_sink()
    await sink.write(varied_records())
    assert len((await sink.query(LogQuery(equals={field: value}))).items) == found


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        (LogQuery(equals={"colour": "red"}), "cannot be filtered by 'colour'"),
        (LogQuery(equals={"streamed": "yes"}), "streamed is true or false"),
        (LogQuery(equals={"status": "4xx"}), "status is a whole number"),
        (LogQuery(start="noon"), "not an RFC 3339 time"),
        (LogQuery(end="2026-01-01T00:00:00"), "has no offset"),
        (LogQuery(limit=0), "limit is from 1 to 1000"),
        (LogQuery(limit=1001), "limit is from 1 to 1000"),
    ],
    ids=str,
)
async def test_a_wrong_query_is_refused(
    open_sink: OpenSink, query: LogQuery, complaint: str
) -> None:
    sink = await open_sink()
    with pytest.raises(ValueError, match=complaint):
        await sink.query(query)


async def test_figures_of_a_group_are_exact(open_sink: OpenSink) -> None:
    sink = await open_sink()
    await sink.write(
        [
            usage_record(duration_ms=float(ms), ttft_ms=None, cost_nanos=2**62, tokens={"x": 2**62})
            for ms in range(1, 102)
        ]
    )
    (row,) = await sink.summarize(UsageQuery(group_by=("model", "tag:team", "model")))
    assert row.group == {"model": "model-1", "tag:team": None}
    assert row.duration_ms == {"avg": 51.0, "p50": 51.0, "p95": 96.0, "p99": 100.0}
    assert row.ttft_ms == dict.fromkeys(("avg", "p50", "p95", "p99"))
    assert row.cost_nanos == {"USD": 101 * 2**62}
    assert row.tokens == {"x": 101 * 2**62}


@pytest.mark.parametrize(("interval", "seconds"), [("minute", 60), ("hour", 3600), ("day", 86400)])
async def test_a_series_has_the_totals_of_each_step(
    open_sink: OpenSink, interval: Interval, seconds: int
) -> None:
    sink = await open_sink(max_bytes=4096)
    records = await hours(sink, 30)
    points = await sink.timeseries(SeriesQuery(interval=interval))
    counted = Counter(
        timestamp(int(moment - moment % seconds)).replace(".000000", "")
        for moment in (_seconds(record) for record in records)
    )
    assert [(point.start, point.row.requests) for point in points] == sorted(counted.items())


async def test_a_series_is_grouped_and_obeys_its_conditions(open_sink: OpenSink) -> None:
    sink = await open_sink()
    records = varied_records()
    await sink.write(records)
    query = SeriesQuery(
        interval="minute", group_by=("model",), start=timestamp(3), end=timestamp(15)
    )
    points = await sink.timeseries(query)
    assert {point.start for point in points} == {"2026-01-01T00:00:00Z"}
    totals = await sink.summarize(UsageQuery(group_by=("model",), start=query.start, end=query.end))
    assert [point.row for point in points] == list(totals)
    with pytest.raises(ValueError, match="colour"):
        await sink.timeseries(SeriesQuery(group_by=("colour",)))


async def test_steps_before_1970_and_without_requests_are_no_trouble(open_sink: OpenSink) -> None:
    sink = await open_sink()
    await sink.write([usage_record(started_at="1969-12-31T23:59:59Z")])
    await sink.write([usage_record(started_at="2026-01-01T05:00:00Z")])
    points = await sink.timeseries(SeriesQuery(interval="day"))
    assert [point.start for point in points] == ["1969-12-31T00:00:00Z", "2026-01-01T00:00:00Z"]


def _seconds(record: UsageRecord) -> float:
    return (datetime.fromisoformat(record.started_at) - EPOCH).total_seconds()
