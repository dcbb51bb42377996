"""What batches leave in the file when calls fail, writers die, and several write at once."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import signal
import subprocess
import sys
import textwrap
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.plugin import LogQuery, UsageQuery, UsageRecord
from relay_gateway.testing.instances import until
from relay_gateway.testing.records import usage_record, varied_records
from relay_gateway_log_file import FileSink
from relay_gateway_log_file.recent import REMEMBERED, RecentIds

OpenSink = Callable[..., Awaitable[FileSink]]


def lines_in(folder: Path) -> list[str]:
    """The request ids of all lines that are not compressed, each as often as it is there."""
    found = [path for path in folder.iterdir() if path.suffix == ".jsonl"]
    return [
        msgspec.json.decode(line)["requestId"]
        for path in found
        for line in path.read_bytes().splitlines()
    ]


def ids_of(records: Sequence[UsageRecord]) -> list[str]:
    return sorted(record.request_id for record in records)


async def test_a_batch_is_one_write(open_sink: OpenSink, monkeypatch: pytest.MonkeyPatch) -> None:
    sink = await open_sink()
    written = count_calls(monkeypatch, "write")
    await sink.write(varied_records(500))
    assert len(written) == 1


@pytest.mark.parametrize(("sync", "syncs"), [("always", 3), ("interval", 0), ("never", 0)])
async def test_the_disk_is_waited_for_as_configured(
    open_sink: OpenSink, monkeypatch: pytest.MonkeyPatch, sync: str, syncs: int
) -> None:
    sink = await open_sink(sync=sync, sync_seconds=3600)
    synced = count_calls(monkeypatch, "fdatasync")
    for _ in range(3):
        await sink.write(varied_records(5))
    assert len(synced) == syncs
    await sink.aclose()
    assert len(synced) == (0 if sync == "never" else max(1, syncs))


async def test_f25_at_intervals_the_disk_is_waited_for_without_a_further_batch(
    open_sink: OpenSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = await open_sink(sync="interval", sync_seconds=0.001)
    synced = count_calls(monkeypatch, "fdatasync")
    await sink.write(varied_records(5))
    assert sink._upkeep is not None
    assert sink._upkeep._syncing is not None
    await sink._upkeep._syncing
    assert len(synced) == 1


async def test_f20_a_failed_sync_at_an_interval_is_logged(
    open_sink: OpenSink, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sink = await open_sink(sync="interval", sync_seconds=0.001)
    await sink.write(varied_records(5))
    assert sink._upkeep is not None
    assert sink._upkeep._syncing is not None
    with failing_call(monkeypatch, 2) as failed:  # the first one opens the lock
        await sink._upkeep._syncing
    assert failed == ["fdatasync"]
    assert "may not outlive a power cut: [Errno 5] Input/output error" in caplog.text
    await sink.write(varied_records(5))


def count_calls(monkeypatch: pytest.MonkeyPatch, name: str) -> list[object]:
    """Everything that is passed to a function of ``os`` from now on."""
    real, calls = getattr(os, name), list[object]()

    def counted(*arguments: object) -> object:
        calls.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(os, name, counted)
    return calls


@contextmanager
def full_at(size: int) -> Iterator[None]:
    """No file can grow beyond ``size``; a write that crosses it is cut short by the kernel."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


async def test_f19_what_does_not_fit_leaves_nothing_behind(
    open_sink: OpenSink, active: Path
) -> None:
    sink = await open_sink()
    first, second = varied_records(300), varied_records(300)
    await sink.write(first)
    size = active.stat().st_size
    with full_at(size + 100_000):
        for _ in range(3):
            with pytest.raises(StorageUnavailableError, match="File too large"):
                await sink.write(second)
            assert active.stat().st_size == size
        assert len((await sink.query(LogQuery(limit=1000))).items) == 300
    await sink.write(second)
    assert sorted(lines_in(active.parent)) == ids_of([*first, *second])


CALLS = ("open", "write", "fdatasync", "fsync", "ftruncate", "fstat", "rename")


async def test_f20_whatever_call_fails_a_batch_is_there_once_in_the_end(
    open_sink: OpenSink, active: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = await open_sink(max_bytes=4096, compress=False)
    written: list[UsageRecord] = []
    called: set[str] = set()
    for nth in range(1, 60):
        batch = varied_records(6)  # so long that each one begins a new file
        written += batch
        with failing_call(monkeypatch, nth) as failed:
            await write_until_taken(sink, batch)
        assert sorted(lines_in(active.parent)) == ids_of(written)
        called.update(failed)
        if not failed:
            break
    else:
        raise AssertionError("there is no end to the calls of one batch")
    assert called >= {"open", "write", "fdatasync", "fsync", "fstat", "rename"}


@contextmanager
def failing_call(monkeypatch: pytest.MonkeyPatch, nth: int) -> Iterator[list[str]]:
    """Lets the ``nth`` call that changes or asks the file system fail; says which that was."""
    failed: list[str] = []
    count = 0

    def failing(name: str) -> None:
        real = getattr(os, name)

        def call(*arguments: object, **options: object) -> object:
            nonlocal count
            count += 1
            if count == nth:
                failed.append(name)
                raise OSError(errno.EIO, "Input/output error")
            return real(*arguments, **options)

        patched.setattr(os, name, call)

    with monkeypatch.context() as patched:
        for name in CALLS:
            failing(name)
        yield failed


async def write_until_taken(sink: FileSink, batch: Sequence[UsageRecord]) -> None:
    for _ in range(3):
        try:
            await sink.write(batch)
        except StorageUnavailableError:
            continue
        return
    raise AssertionError("the batch was never taken")


async def test_f20_after_a_failed_sync_and_a_failed_repair_nothing_is_lost(
    open_sink: OpenSink, active: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = await open_sink()
    batch = varied_records(10)

    def fails(*arguments: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fdatasync", fails)
        patched.setattr(os, "ftruncate", fails)
        with pytest.raises(StorageUnavailableError, match="Input/output error"):
            await sink.write(batch)
    await sink.write(batch)
    assert sorted(lines_in(active.parent)) == ids_of(batch)


@pytest.mark.parametrize("kept", [1, 500, 900])
async def test_f21_a_torn_end_is_removed_before_the_next_batch(
    open_sink: OpenSink, active: Path, kept: int, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = varied_records(2)
    sink = await open_sink()
    await sink.write([first, second])
    await sink.aclose()
    whole = active.read_bytes()
    active.write_bytes(whole[: whole.index(b"\n") + 1 + kept])
    again = await open_sink()
    assert (await again.query(LogQuery())).items == (first,)
    await again.write([second])
    assert active.read_bytes() == whole
    assert f"removed {kept} bytes at the end" in caplog.text


async def test_f21_zeros_after_a_power_cut_are_removed(open_sink: OpenSink, active: Path) -> None:
    active.parent.mkdir()
    active.write_bytes(b"\0" * 4096)
    sink = await open_sink()
    record = usage_record()
    await sink.write([record])
    assert lines_in(active.parent) == [record.request_id]


@pytest.mark.parametrize("compressed", [False, True], ids=["as-it-is", "compressed"])
async def test_f18_a_batch_that_comes_again_after_a_restart_is_not_doubled(
    open_sink: OpenSink, active: Path, compressed: bool
) -> None:
    batches = [varied_records(20) for _ in range(3)]
    first = await open_sink(max_bytes=20_000, compress=compressed)
    for batch in batches:
        await first.write(batch)
    if compressed:
        await until(lambda: list(active.parent.glob("*.jsonl")) == [active])
    await first.aclose()
    assert len(list(active.parent.glob("usage.*.gz"))) == (2 if compressed else 0)
    second = await open_sink(max_bytes=20_000)
    await second.write(batches[1])  # in the newest rotated file
    await second.write(batches[2])
    assert [row.requests for row in await second.summarize(UsageQuery())] == [60]


async def test_a_record_without_a_time_is_refused_and_the_batch_with_it(
    open_sink: OpenSink, active: Path
) -> None:
    sink = await open_sink()
    with pytest.raises(ValueError, match="'noon' is not an RFC 3339 time"):
        await sink.write([usage_record(), usage_record(started_at="noon")])
    assert active.read_bytes() == b""


def test_ids_are_remembered_for_long_but_not_for_ever() -> None:
    recent = RecentIds(remembered=10)
    records = [usage_record() for _ in range(30)]
    for record in records:
        recent.add([record.request_id])
    assert recent.unknown(records[-10:]) == {}
    assert list(recent.unknown(records[:10]).values()) == records[:10]
    assert REMEMBERED >= 20_000


async def test_what_an_operator_renames_or_deletes_is_made_anew(
    open_sink: OpenSink, active: Path
) -> None:
    sink = await open_sink()
    first, second, third = (usage_record() for _ in range(3))
    await sink.write([first])
    active.rename(active.with_name("by-hand.jsonl"))
    await sink.write([first, second])
    active.unlink()
    await sink.write([third])
    assert sorted(lines_in(active.parent)) == ids_of([first, third])


async def test_while_another_process_has_the_turn_a_write_waits_and_then_gives_up(
    open_sink: OpenSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "relay_gateway_log_file.turns.Turns.taken.__wrapped__.__defaults__", (0.01,)
    )
    sink = await open_sink()
    assert sink._archive is not None
    with (
        sink._archive._folder.writing.taken(),
        pytest.raises(StorageUnavailableError, match="another process holds"),
    ):
        await sink.write([usage_record()])
    await sink.write([usage_record()])


PROCESS = """
    import asyncio, sys
    from pathlib import Path
    from relay_gateway.testing.context import plugin_context
    from relay_gateway.testing.records import usage_record
    from relay_gateway_log_file import FileSink, FileSinkConfig

    async def run(directory, name, batches):
        context = plugin_context(Path(directory))
        sink = FileSink(FileSinkConfig(max_bytes=20_000), context)
        await sink.aopen()
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(int(batches)):
            batch = [usage_record(request_id=f"{name}-{number}-{i}") for i in range(10)]
            await sink.write(batch)
            print(number, flush=True)
        await sink.aclose()
        await context.aclose()

    asyncio.run(run(*sys.argv[1:]))
"""


def writer(directory: Path, name: str, batches: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(PROCESS), str(directory), name, str(batches)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()[1]
    return process


def let_go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


async def test_f29_processes_that_write_and_rotate_at_once_lose_and_double_nothing(
    open_sink: OpenSink, tmp_path: Path
) -> None:
    processes = [writer(tmp_path, name, 40) for name in "abc"]
    for process in processes:
        let_go(process)
    for process in processes:
        errors = process.communicate(timeout=30)[1]
        assert (process.returncode, errors) == (0, "")
    reader = await open_sink()
    names = [f"{name}-{number}-{i}" for name in "abc" for number in range(40) for i in range(10)]
    assert await read_ids(reader) == sorted(names)


async def test_f24_a_writer_killed_at_any_moment_leaves_whole_batches(
    open_sink: OpenSink, tmp_path: Path
) -> None:
    expected: dict[str, int] = {}
    for name in "abcd":
        process = writer(tmp_path, name, 10_000)
        let_go(process)
        assert process.stdout is not None
        for _ in range(5 * len(expected) + 5):
            acknowledged = int(process.stdout.readline())
        os.kill(process.pid, signal.SIGKILL)
        await asyncio.to_thread(process.communicate)
        expected[name] = acknowledged
    sink = await open_sink(max_bytes=20_000)
    await sink.write([usage_record(request_id="last")])
    found = set(await read_ids(sink))
    for name, acknowledged in expected.items():
        whole = {f"{name}-{number}-{i}" for number in range(acknowledged + 1) for i in range(10)}
        assert whole <= found


async def read_ids(reader: FileSink) -> list[str]:
    """All request ids, page by page, each as often as it is shown."""
    found: list[str] = []
    query = LogQuery(limit=1000)
    for _ in range(200):
        page = await reader.query(query)
        found += [record.request_id for record in page.items]
        if page.next_cursor is None:
            return sorted(found)
        query = msgspec.structs.replace(query, cursor=page.next_cursor)
    raise AssertionError("the pages have no end")
