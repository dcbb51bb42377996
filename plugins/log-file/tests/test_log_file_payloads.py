"""Payloads: one file each, found by the id in one read, deleted when their time is over."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.plugin import PayloadRecord, PluginContext
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.plugin_tests import new_id
from relay_gateway_log_file import FilePayloads, FilePayloadsConfig, relay_register_payload_loggers

AN_HOUR = 3600
MIDNIGHT = 1767225600
"""2026-01-01T00:00:00Z."""
AN_ID = "019b76da-a800-7000-8000-000000000001"  # of that time

OpenPayloads = Callable[..., Awaitable[FilePayloads]]


def id_at(seconds: float, number: int = 1) -> str:
    """The id of a request that began so many seconds after midnight."""
    text = f"{int((MIDNIGHT + seconds) * 1000):012x}"
    return f"{text[:8]}-{text[8:]}-7000-8000-{number:012x}"


def payload(request_id: str | None = None, **fields: Any) -> PayloadRecord:
    ordinary: dict[str, Any] = {
        "request_id": new_id() if request_id is None else request_id,
        "started_at": "2026-01-01T00:00:00.000000Z",
        "request": b'{"messages": [{"role": "user", "content": "\xc3\xa9"}]}',
        "response": b"data: \xff\x00\r\n\r\n",
        "request_content_type": "application/json",
        "response_bytes": 9,
        "response_truncated": True,
        "request_headers": (("accept", "*/*"), ("accept", "text/html")),
        "text": "Zürich\n",
    }
    return PayloadRecord(**{**ordinary, **fields})


def noisy(request_id: str) -> PayloadRecord:
    """A payload of some 10 kB, compressed."""
    return payload(request_id, request=os.urandom(7500))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "payloads"


@pytest.fixture
async def open_payloads(context: PluginContext) -> AsyncIterator[OpenPayloads]:
    """Opens one more logger with these settings on the same directory."""
    async with AsyncExitStack() as stack:

        async def opened(**settings: Any) -> FilePayloads:
            logger = FilePayloads(FilePayloadsConfig.model_validate(settings), context)
            stack.push_async_callback(logger.aclose)
            await logger.aopen()
            await tidied(logger)
            return logger

        yield opened


async def tidied(logger: FilePayloads) -> None:
    """Waits for the look at the files that is under way."""
    assert logger._tidying is not None
    assert logger._tidying._tidying is not None
    await logger._tidying._tidying


def files(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*.json.gz"))


async def test_a_payload_comes_back_as_it_was(open_payloads: OpenPayloads) -> None:
    logger = await open_payloads()
    records = [payload() for _ in range(50)]
    await logger.write(records)
    for record in records:
        assert await logger.read(record.request_id) == record
    assert await (await open_payloads()).read(records[0].request_id) == records[0]


async def test_the_place_follows_from_the_id_alone(open_payloads: OpenPayloads, root: Path) -> None:
    logger = await open_payloads()
    await logger.write([payload(id_at(9.5 * AN_HOUR), started_at="2030-05-05T00:00:00Z")])
    assert files(root) == [f"2026-01-01/09/{id_at(9.5 * AN_HOUR)}.json.gz"]
    content = gzip.decompress((root / files(root)[0]).read_bytes())
    assert json.loads(content)["requestId"] == id_at(9.5 * AN_HOUR)


async def test_t53_files_and_directories_are_their_owners_alone(
    open_payloads: OpenPayloads, root: Path
) -> None:
    previous = os.umask(0)
    try:
        await (await open_payloads()).write([payload(AN_ID)])
    finally:
        os.umask(previous)
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in (root, *root.rglob("*"))}
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


@pytest.mark.parametrize(
    "request_id", ["../x", "", AN_ID.upper(), AN_ID.replace("-7", "-4"), "a/b", "\0", ".."]
)
async def test_t53_an_id_that_is_not_the_gateways_names_no_file(
    open_payloads: OpenPayloads, root: Path, request_id: str
) -> None:
    logger = await open_payloads()
    with pytest.raises(ValueError, match="is no request id of the gateway"):
        await logger.write([payload(AN_ID), payload(request_id)])
    assert await logger.read(request_id) is None
    assert files(root) == []


@pytest.mark.parametrize("linked", ["2026-01-01", "2026-01-01/00"])
async def test_t53_a_symbolic_link_is_followed_nowhere_below_the_directory(
    open_payloads: OpenPayloads, root: Path, tmp_path: Path, linked: str
) -> None:
    logger = await open_payloads()
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "00").mkdir(parents=True)
    (root / linked).parent.mkdir(exist_ok=True)
    (root / linked).symlink_to(elsewhere)
    with pytest.raises(StorageUnavailableError, match=r"\[payload_loggers\.file\] path"):
        await logger.write([payload(AN_ID)])
    with pytest.raises(StorageUnavailableError):
        await logger.read(AN_ID)
    assert not list(elsewhere.rglob("*.gz*"))


async def test_t53_a_link_in_the_place_of_a_payload_is_replaced_and_not_read(
    open_payloads: OpenPayloads, root: Path, tmp_path: Path
) -> None:
    logger = await open_payloads()
    await logger.write([payload(AN_ID)])
    (place,) = root.rglob("*.json.gz")
    target = tmp_path / "secret"
    target.write_bytes(place.read_bytes())
    place.unlink()
    place.symlink_to(target)
    with pytest.raises(StorageUnavailableError):
        await logger.read(AN_ID)
    await logger.write([payload(AN_ID, text="new")])
    assert not place.is_symlink()
    found = await logger.read(AN_ID)
    assert found is not None
    assert found.text == "new"


async def test_a_payload_that_comes_again_is_there_once(
    open_payloads: OpenPayloads, root: Path
) -> None:
    logger, other = await open_payloads(), await open_payloads()
    record = payload(AN_ID)
    await asyncio.gather(*(one.write([record, record]) for one in (logger, other) * 5))
    assert len(files(root)) == 1
    assert await logger.read(AN_ID) == record


async def test_f19_a_payload_is_there_whole_or_not_at_all(
    open_payloads: OpenPayloads, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logger = await open_payloads()
    record = payload(AN_ID)

    def full(descriptor: int, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("relay_gateway_log_file.payload_tree.write_whole", full)
        with pytest.raises(StorageUnavailableError, match="No space left on device"):
            await logger.write([record])
    assert list((root / "2026-01-01" / "00").iterdir()) == []
    assert await logger.read(AN_ID) is None
    await logger.write([record])
    assert await logger.read(AN_ID) == record


@pytest.mark.parametrize(
    "content",
    [b"", b"not gzip", gzip.compress(b"{}", mtime=0), gzip.compress(b"[", mtime=0)],
    ids=["empty", "not gzip", "not a payload", "not JSON"],
)
async def test_what_is_damaged_is_told(
    open_payloads: OpenPayloads, root: Path, content: bytes
) -> None:
    logger = await open_payloads()
    await logger.write([payload(AN_ID)])
    (root / files(root)[0]).write_bytes(content)
    with pytest.raises(StorageUnavailableError, match="is damaged"):
        await logger.read(AN_ID)


async def test_a_pipe_in_the_place_of_a_payload_holds_nothing_up(
    open_payloads: OpenPayloads, root: Path
) -> None:
    logger = await open_payloads()
    (root / "2026-01-01" / "00").mkdir(parents=True)
    os.mkfifo(root / "2026-01-01" / "00" / f"{AN_ID}.json.gz")
    with pytest.raises(StorageUnavailableError):
        await asyncio.wait_for(logger.read(AN_ID), 5)


async def test_t65_payloads_are_deleted_after_seven_days(
    open_payloads: OpenPayloads, root: Path, clock: FakeClock
) -> None:
    logger = await open_payloads()
    started = clock.time() - MIDNIGHT
    old, younger = id_at(started - 7 * 24 * AN_HOUR - AN_HOUR), id_at(started - 6 * 24 * AN_HOUR)
    await logger.write([payload(old), payload(younger)])
    clock.advance(AN_HOUR + 1)
    await logger.write([payload(id_at(started))])
    await tidied(logger)
    assert await logger.read(old) is None
    assert await logger.read(younger) is not None
    assert len(files(root)) == 2
    assert len([path for path in root.iterdir() if path.is_dir()]) == 2, "no empty directory stays"


async def test_t65_the_oldest_payloads_go_when_there_are_too_many_bytes(
    open_payloads: OpenPayloads, root: Path
) -> None:
    logger = await open_payloads(retention_bytes=100_000, retention_days=36_500)
    ids = [id_at(hour * AN_HOUR, number) for hour in range(4) for number in range(5)]
    for request_id in ids:
        await logger.write([noisy(request_id)])
        await tidied(logger)
        sizes = [path.stat().st_size for path in root.rglob("*.json.gz")]
        assert sum(sizes) <= 100_000
    kept = [request_id for request_id in ids if await logger.read(request_id) is not None]
    assert kept == ids[-len(kept) :], "the oldest went first"
    assert len(kept) >= 8


async def test_one_hour_alone_is_cut_too(open_payloads: OpenPayloads) -> None:
    logger = await open_payloads(retention_bytes=50_000, retention_days=36_500)
    ids = [id_at(0, number) for number in range(20)]
    await logger.write([noisy(request_id) for request_id in ids])
    await tidied(logger)
    kept = [request_id for request_id in ids if await logger.read(request_id) is not None]
    assert 0 < len(kept) < 10
    assert kept == ids[-len(kept) :]


async def test_what_a_killed_process_left_behind_is_deleted(
    open_payloads: OpenPayloads, root: Path
) -> None:
    directory = root / "2026-01-01" / "00"
    directory.mkdir(parents=True)
    left, fresh = directory / ".a.json.gz.01.part", directory / ".b.json.gz.02.part"
    left.touch()
    fresh.touch()
    os.utime(left, (MIDNIGHT, MIDNIGHT))
    await open_payloads(retention_days=36_500)
    assert not left.exists()
    assert fresh.exists(), "somebody may be writing it"


async def test_retention_leaves_alone_what_is_not_the_gateways(
    open_payloads: OpenPayloads, root: Path, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").touch()
    root.mkdir()
    (root / "notes").mkdir()
    (root / "2020-01-01").symlink_to(elsewhere)
    (root / "2020-01-02" / "hour").mkdir(parents=True)
    await open_payloads(retention_bytes=4096)
    assert (elsewhere / "file").exists()
    assert (root / "notes").exists()
    assert (root / "2020-01-02" / "hour").exists()


async def test_before_it_is_open_nothing_is_written(context: PluginContext) -> None:
    logger = FilePayloads(FilePayloadsConfig(), context)
    await logger.aclose()
    with pytest.raises(StorageUnavailableError, match="not open"):
        await logger.write([payload()])


async def test_a_directory_that_cannot_be_made_is_named(
    open_payloads: OpenPayloads, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageUnavailableError, match=r"file/payloads .*Not a directory"):
        await open_payloads(path=str(tmp_path / "file" / "payloads"))


@pytest.mark.parametrize(
    "settings",
    [{"path": ""}, {"sync": "interval"}, {"retention_days": 0}, {"retention_bytes": 1}, {"x": 1}],
    ids=str,
)
def test_a_wrong_setting_is_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        FilePayloadsConfig.model_validate(settings)


def test_the_hook_hands_over_the_logger() -> None:
    assert list(relay_register_payload_loggers()) == [FilePayloads]
