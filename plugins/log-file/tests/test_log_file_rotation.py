"""When files rotate, what they are called, and what becomes of them then."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from relay_gateway.plugin import PluginContext, UsageRecord
from relay_gateway.testing.clock import DEFAULT_TIME, FakeClock
from relay_gateway.testing.records import timestamp, usage_record
from relay_gateway_log_file import FileSink
from relay_gateway_log_file.folder import Folder
from relay_gateway_log_file.tidier import Retention, Tidier
from relay_gateway_log_file.upkeep import TIDY_SECONDS

OpenSink = Callable[..., Awaitable[FileSink]]
A_DAY = 86400
FIRST = "20260101T000000Z"


async def tidied(sink: FileSink) -> None:
    """Waits until rotated files are compressed and old ones gone."""
    assert sink._upkeep is not None
    assert sink._upkeep._tidying is not None
    await sink._upkeep._tidying


async def write_each(sink: FileSink, records: Sequence[UsageRecord]) -> None:
    for record in records:
        await sink.write([record])
        await tidied(sink)


def records_at(*seconds: float) -> list[UsageRecord]:
    return [usage_record(started_at=timestamp(second)) for second in seconds]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))


def content_of(path: Path) -> list[UsageRecord]:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return msgspec.json.Decoder(UsageRecord).decode_lines(content)


def set_last_write(path: Path, seconds: float) -> None:
    os.utime(path, (seconds, seconds))


async def test_a_batch_that_would_make_the_file_too_large_begins_a_new_one(
    open_sink: OpenSink, active: Path
) -> None:
    sink = await open_sink(max_bytes=4096)
    records = records_at(0, 1, 2.5, 70, 71)
    await write_each(sink, records)
    assert names_in(active.parent) == [f"usage.{FIRST}.20260101T000110Z.1.jsonl.gz", "usage.jsonl"]
    first, last = (content_of(active.parent / name) for name in names_in(active.parent))
    assert first + last == records
    assert len(last) == 1


async def test_a_batch_larger_than_a_file_has_one_of_its_own(
    open_sink: OpenSink, active: Path
) -> None:
    sink = await open_sink(max_bytes=4096, compress=False)
    await write_each(sink, records_at(0))
    await sink.write(records_at(*range(1, 20)))
    await write_each(sink, records_at(20))
    assert names_in(active.parent) == [
        f"usage.{FIRST}.{FIRST}.1.jsonl",
        "usage.20260101T000001Z.20260101T000019Z.1.jsonl",
        "usage.jsonl",
    ]


async def test_files_of_the_same_seconds_are_told_apart(open_sink: OpenSink, active: Path) -> None:
    sink = await open_sink(max_bytes=4096)
    await write_each(sink, records_at(*[0] * 13))
    numbered = [f"usage.{FIRST}.{FIRST}.{number}.jsonl.gz" for number in (1, 2, 3)]
    assert names_in(active.parent) == [*numbered, "usage.jsonl"]


@pytest.mark.parametrize(
    ("rotate", "seconds", "files"),
    [
        ("hourly", 3599, 1),
        ("hourly", 3600, 2),
        ("daily", A_DAY - 1, 1),
        ("daily", A_DAY, 2),
        ("never", 40 * A_DAY, 1),
    ],
)
async def test_the_turn_of_an_hour_or_day_begins_a_new_file(
    open_sink: OpenSink, active: Path, clock: FakeClock, rotate: str, seconds: int, files: int
) -> None:
    sink = await open_sink(rotate=rotate)
    await write_each(sink, records_at(0, 1))
    set_last_write(active, DEFAULT_TIME)
    clock.advance(seconds)
    await write_each(sink, records_at(seconds))
    assert len(names_in(active.parent)) == files


async def test_a_file_of_yesterday_is_rotated_after_a_start_and_not_doubled(
    open_sink: OpenSink, active: Path, clock: FakeClock
) -> None:
    record = usage_record()
    await (await open_sink()).write([record])
    set_last_write(active, DEFAULT_TIME)
    clock.advance(A_DAY)
    sink = await open_sink()
    await write_each(sink, [record])
    assert names_in(active.parent) == ["usage.jsonl"]
    await write_each(sink, records_at(A_DAY))
    assert names_in(active.parent) == [f"usage.{FIRST}.{FIRST}.1.jsonl.gz", "usage.jsonl"]


async def test_files_older_than_the_retention_are_deleted(
    open_sink: OpenSink, active: Path, clock: FakeClock
) -> None:
    sink = await open_sink(max_bytes=4096, retention_days=2)
    for day in range(6):
        clock.set_time(DEFAULT_TIME + day * A_DAY)
        await write_each(sink, records_at(*[day * A_DAY] * 4))
    names = names_in(active.parent)
    assert [name.split(".")[1] for name in names] == [
        *(f"2026010{day}T000000Z" for day in (4, 5)),
        "jsonl",
    ]


async def test_retention_is_looked_at_every_hour_without_a_rotation(
    open_sink: OpenSink, active: Path, clock: FakeClock
) -> None:
    sink = await open_sink(max_bytes=4096, rotate="never")
    await write_each(sink, records_at(*range(6)))
    await sink.aclose()
    sink = await open_sink(retention_days=1, rotate="never")
    await tidied(sink)
    clock.set_time(DEFAULT_TIME + 2 * A_DAY)  # the monotonic clock stands still
    await write_each(sink, records_at(2 * A_DAY))
    assert len(names_in(active.parent)) == 2
    clock.advance(TIDY_SECONDS)
    await write_each(sink, records_at(2 * A_DAY + TIDY_SECONDS))
    assert names_in(active.parent) == ["usage.jsonl"]


async def test_the_oldest_files_are_deleted_while_all_are_too_large(
    open_sink: OpenSink, active: Path
) -> None:
    sink = await open_sink(max_bytes=4096, compress=False, retention_bytes=10_000)
    await write_each(sink, records_at(*range(40)))
    sizes = [(active.parent / name).stat().st_size for name in names_in(active.parent)]
    assert 5_000 < sum(sizes) <= 10_000 + 4096
    assert content_of(active.parent / names_in(active.parent)[0])[0].started_at > timestamp(20)


async def test_other_files_in_the_directory_are_left_alone(
    open_sink: OpenSink, active: Path
) -> None:
    active.parent.mkdir()
    others = [
        "notes.txt",
        f"usage.{FIRST}.jsonl",
        f"other.{FIRST}.{FIRST}.1.jsonl",
        f"usage.{FIRST}.{FIRST}.1.jsonl.bak",
        f"usage.20261301T000000Z.{FIRST}.1.jsonl",
    ]
    for name in others:
        (active.parent / name).write_text("mine")
    sink = await open_sink(max_bytes=4096, retention_bytes=4096)
    await write_each(sink, records_at(*range(20)))
    assert set(others) <= set(names_in(active.parent))
    assert all((active.parent / name).read_text() == "mine" for name in others)


def rotated_by_hand(active: Path, content: bytes) -> Path:
    """A file as an ended process left it: rotated and not compressed."""
    active.parent.mkdir(exist_ok=True)
    path = active.with_name(f"usage.{FIRST}.{FIRST}.1.jsonl")
    path.write_bytes(content)
    return path


LINE = msgspec.json.encode(usage_record()) + b"\n"


def tidier(active: Path, context: PluginContext) -> Tidier:
    retention = Retention(compress=True, seconds=None, size=None)
    return Tidier(Folder(active), retention, context.clock, context.logger)


def test_what_a_killed_compression_left_behind_is_done_again(
    active: Path, context: PluginContext
) -> None:
    plain = rotated_by_hand(active, LINE)
    plain.with_name(f"{plain.name}.gz.part").write_bytes(b"half of")
    tidier(active, context).run()
    assert names_in(active.parent) == [f"{plain.name}.gz"]
    assert gzip.decompress((active.parent / f"{plain.name}.gz").read_bytes()) == LINE


async def test_a_file_in_both_forms_is_read_once_and_then_one_is_deleted(
    open_sink: OpenSink, active: Path, context: PluginContext
) -> None:
    plain = rotated_by_hand(active, LINE)
    compressed = plain.with_name(f"{plain.name}.gz")
    compressed.write_bytes(gzip.compress(LINE))
    assert [one.path for one in Folder(active).segments()] == [plain]
    tidier(active, context).run()
    assert names_in(active.parent) == [compressed.name]


def test_f18_a_file_that_is_compressed_while_the_directory_is_listed_is_not_missed(
    active: Path, context: PluginContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = rotated_by_hand(active, b"{}\n").name
    listed, left = Path.iterdir, [1]

    def listing(path: Path) -> Iterator[Path]:
        """A listing that was past the new name when it came, and comes to the old one too late."""
        found = list(listed(path))
        if path == active.parent and left:
            left.clear()
            found = [one for one in found if one.name != name]
            tidier(active, context).run()
        return iter(found)

    monkeypatch.setattr(Path, "iterdir", listing)
    assert [one.number for one in Folder(active).segments()] == [1]
    assert not left
    assert f"{name}.gz" in names_in(active.parent)


def test_only_one_process_tidies_up_at_a_time(active: Path, context: PluginContext) -> None:
    plain = rotated_by_hand(active, LINE)
    with Folder(active).tidying.taken():
        tidier(active, context).run()
    assert names_in(active.parent) == [plain.name]


def test_a_sink_that_closes_does_not_wait_for_a_compression(
    active: Path, context: PluginContext
) -> None:
    plain = rotated_by_hand(active, LINE)
    stopped = tidier(active, context)
    stopped.stop()
    stopped.run()
    assert names_in(active.parent) == [plain.name]


def test_a_compression_that_is_stopped_in_the_middle_leaves_the_file_as_it_was(
    active: Path, context: PluginContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = rotated_by_hand(active, LINE * 3000)
    stopped = tidier(active, context)
    asked = iter([False, False, True, True])
    monkeypatch.setattr(threading.Event, "is_set", lambda _: next(asked))
    stopped.run()
    assert names_in(active.parent) == [plain.name]
    assert plain.read_bytes() == LINE * 3000


async def test_f19_a_compression_that_fails_is_logged_and_loses_nothing(
    open_sink: OpenSink,
    active: Path,
    context: PluginContext,
    caplog: pytest.LogCaptureFixture,
) -> None:
    plain = rotated_by_hand(active, LINE)
    # A directory is where its result would be.
    plain.with_name(f"{plain.name}.gz.part").mkdir()
    tidier(active, context).run()
    assert plain.read_bytes() == LINE
    assert "rotated files could not be tidied up" in caplog.text
