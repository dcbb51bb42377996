"""Opening, closing, and what the sink refuses to be opened on."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from pydantic import ValidationError

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.plugin import LogQuery, PluginContext
from relay_gateway.testing.records import usage_record
from relay_gateway_log_file import FileSink, FileSinkConfig, relay_register_usage_sinks
from relay_gateway_log_file.config import locate

OpenSink = Callable[..., Awaitable[FileSink]]


async def test_before_it_is_open_and_after_it_is_closed_the_sink_is_unavailable(
    context: PluginContext,
) -> None:
    sink = FileSink(FileSinkConfig(), context)
    with pytest.raises(StorageUnavailableError, match="not open"):
        await sink.write([usage_record()])
    await sink.aopen()
    await sink.aclose()
    with pytest.raises(StorageUnavailableError, match="not open"):
        await sink.query(LogQuery())


async def test_files_and_directory_are_their_owners_alone(
    open_sink: OpenSink, active: Path
) -> None:
    sink = await open_sink(max_bytes=4096)
    for _ in range(12):
        await sink.write([usage_record()])
    await sink.aclose()
    assert stat.S_IMODE(active.parent.stat().st_mode) == 0o700
    found = {path.suffix: stat.S_IMODE(path.stat().st_mode) for path in active.parent.iterdir()}
    assert found == {".jsonl": 0o600, ".gz": 0o600, ".lock": 0o600}


async def test_one_line_is_one_record_with_the_fields_of_the_api(
    open_sink: OpenSink, active: Path
) -> None:
    sink = await open_sink()
    await sink.write([usage_record(request_id="a", tags={"team": "é\n"}), usage_record()])
    first, second = active.read_bytes().splitlines()
    assert first.startswith(b'{"requestId":"a","startedAt":"2026-01-01T00:00:00.000000Z","mode":')
    assert '"tags":{"team":"é\\n"}'.encode() in first
    assert b'"costNanos":1500' in second


async def test_t53_a_symbolic_link_is_not_written_through(
    open_sink: OpenSink, active: Path, tmp_path: Path
) -> None:
    target = tmp_path / "elsewhere"
    active.parent.mkdir()
    active.symlink_to(target)
    with pytest.raises(StorageUnavailableError, match="symbolic links"):
        await open_sink()
    assert not target.exists()


@pytest.mark.parametrize("content", [b"root:x:0:0", b"[1]\n", b'{"a":1}\n'])
async def test_a_file_of_something_else_is_refused_and_left_alone(
    open_sink: OpenSink, active: Path, content: bytes
) -> None:
    active.parent.mkdir()
    active.write_bytes(content)
    with pytest.raises(StorageUnavailableError, match="something else than usage records"):
        await open_sink()
    assert active.read_bytes() == content


async def test_a_directory_that_cannot_be_made_is_named(
    open_sink: OpenSink, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageUnavailableError, match=r"file/usage\.jsonl .*File exists"):
        await open_sink(path=str(tmp_path / "file" / "usage.jsonl"))


async def test_f18_a_batch_whose_acknowledgement_was_lost_is_not_doubled(
    open_sink: OpenSink, active: Path
) -> None:
    sink = await open_sink()
    batch = [usage_record() for _ in range(20)]
    for _ in range(50):
        waiting = asyncio.create_task(sink.write(batch))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    await sink.write(batch)
    assert len(active.read_bytes().splitlines()) == len(batch)


async def test_closing_waits_for_the_batches_under_way(open_sink: OpenSink, active: Path) -> None:
    sink = await open_sink()
    async with asyncio.TaskGroup() as group:
        group.create_task(sink.write([usage_record() for _ in range(2000)]))
        await asyncio.sleep(0)
        await sink.aclose()
        assert len(active.read_bytes().splitlines()) == 2000


def test_where_records_are_kept(context: PluginContext, tmp_path: Path) -> None:
    assert locate(FileSinkConfig(), context) == tmp_path / "usage" / "usage.jsonl"
    assert locate(FileSinkConfig(path="/var/log/u.log"), context) == Path("/var/log/u.log")
    assert locate(FileSinkConfig(path="-"), context) is None


@pytest.mark.parametrize(
    "settings",
    [
        {"path": ""},
        {"path": "/var/log/"},
        {"sync": "sometimes"},
        {"rotate": "weekly"},
        {"max_bytes": 10},
        {"retention_days": 0},
        {"sync_seconds": float("inf")},
        {"colour": "red"},
    ],
    ids=str,
)
def test_a_wrong_setting_is_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        FileSinkConfig.model_validate(settings)


def test_sizes_may_have_units() -> None:
    assert FileSinkConfig.model_validate({"max_bytes": "1MiB"}).max_bytes == 1024 * 1024


def test_the_hook_hands_over_the_sink() -> None:
    assert list(relay_register_usage_sinks()) == [FileSink]
