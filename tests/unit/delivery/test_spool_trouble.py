"""What goes wrong with the disk costs no record while there is another way to keep it."""

from __future__ import annotations

import errno
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from relay_gateway.delivery import journal as journal_module
from relay_gateway.delivery.delivery import Delivery
from relay_gateway.delivery.disk import Disk
from relay_gateway.delivery.spool import SpoolTerms
from relay_gateway.plugin import PayloadRecord, UsageRecord
from relay_gateway.testing.failing_disk import FailingDisk, SmallDisk
from relay_gateway.testing.instances import until
from relay_gateway.testing.records import usage_record
from relay_gateway.testing.spools import SpoolWorld

SMALL = SpoolTerms(segment_bytes=5_000)
COUNT = 24


def payload(size: int = 1000) -> PayloadRecord:
    return PayloadRecord(request_id=usage_record().request_id, started_at="", request=b"x" * size,
                         response=b"y" * size)  # fmt: skip


def is_done(delivery: Delivery) -> bool:
    return delivery.spool.usage.done == COUNT


def world_in(directory: Path, *sinks: str) -> SpoolWorld:
    """One of its own for each call that fails."""
    directory.mkdir()
    return SpoolWorld(directory, *sinks)


async def work(delivery: Delivery, sent: list[UsageRecord], together: int = 1) -> None:
    """Some of everything that a spool does, with so many records ``together`` in one write."""
    for index in range(COUNT):
        if together > 1 and index % together == 0:
            delivery.hold()
        sent.append(usage_record())
        delivery.announce(sent[-1].request_id, (sent[-1].request_id,))
        delivery.put(sent[-1])
        if together > 1 and index % together == together - 1:
            delivery.release()
        if index % 8 == 7:
            await delivery.spool.tend()


@pytest.mark.parametrize(("together", "calls"), [(1, 60), (4, 25)])
@pytest.mark.parametrize(
    ("error", "short"), [(errno.EIO, False), (errno.ENOSPC, False), (errno.ENOSPC, True)]
)
async def test_f20_whichever_call_fails_no_record_is_lost_or_doubled(
    tmp_path: Path, error: int, together: int, calls: int, *, short: bool
) -> None:
    for nth in count(1):
        world = world_in(tmp_path / str(nth), "one", "two")
        disk = FailingDisk(nth, error, short=short)
        sent: list[UsageRecord] = []
        delivery = await world.open(disk=disk, terms=SMALL)
        await work(delivery, sent, together)
        await until(partial(is_done, delivery))
        await world.close(delivery)
        wanted = [record.request_id for record in sent]
        assert world.sinks["one"].ids == world.sinks["two"].ids == wanted, (nth, disk.failed)
        if disk.failed is None:
            break
    assert nth > calls


@pytest.mark.parametrize(("together", "calls"), [(1, 40), (4, 15)])
@pytest.mark.parametrize("short", [False, True])
async def test_f20_whichever_call_fails_a_kill_afterwards_loses_nothing(
    tmp_path: Path, together: int, calls: int, *, short: bool
) -> None:
    for nth in count(1):
        world = world_in(tmp_path / str(nth), "one")
        disk = FailingDisk(nth, errno.ENOSPC if short else errno.EIO, short=short)
        sent: list[UsageRecord] = []
        world.sinks["one"].down = True
        first = await world.open(disk=disk, terms=SMALL)
        await work(first, sent, together)
        while not first.spool.usage.written:
            await first.spool.mend()
        await world.kill(first)
        world.sinks["one"].down = False
        await world.close(await world.open())
        assert sorted(world.sinks["one"].ids) == sorted(one.request_id for one in sent), nth
        if disk.failed is None:
            break
    assert nth > calls


async def test_f20_taking_over_an_orphan_survives_each_failure(tmp_path: Path) -> None:
    for nth in count(1):
        world = world_in(tmp_path / str(nth), "one")
        world.sinks["one"].down = True
        first = await world.open(terms=SMALL)
        wanted = []
        for _ in range(5):
            wanted.append(usage_record().request_id)
            first.announce(wanted[-1], opened(wanted[-1]))
        await world.kill(first)
        tear(next((world.directory / "spool").glob("*/usage-*")))
        world.sinks["one"].down = False
        disk = FailingDisk(nth)
        for _ in range(3):  # what fails once is well the next time
            await world.close(await world.open(disk=disk))
        assert world.sinks["one"].ids == wanted, (nth, disk.failed)
        if disk.failed is None:
            break
    assert nth > 10


async def test_f19_a_full_file_system_takes_payloads_first_then_memory_then_refuses(
    world: SpoolWorld,
) -> None:
    world.loggers["kept"].down = True
    for sink in world.sinks.values():
        sink.down = True
    disk = SmallDisk(world.directory, 1024 * 1024)
    delivery = await world.open(disk=disk, terms=SpoolTerms(segment_bytes=50_000), reserve=100)
    delivery.switch_payloads(("kept",))
    for _ in range(400):
        delivery.put_payload(payload())
    await until(lambda: delivery.desk.held_bytes == 0)
    assert delivery.spool.payloads.number == 400
    while not delivery.full:
        for _ in range(50):
            delivery.put(usage_record())
        await delivery.spool.tend()
        await delivery.spool.mend()
    line = delivery.payload_lines.all[0]
    lost = delivery.spool.payloads.dropped
    assert line.dropped + lost > 300, "payloads make room for usage"
    assert all(one.dropped == 0 for one in delivery.lines)
    refused = usage_record(error_code="overloaded", outcome="rejected")
    delivery.put(refused)
    assert delivery.spool.usage.dropped == 1
    total = delivery.spool.usage.number
    disk.room *= 8
    for sink in world.sinks.values():
        sink.down = False
    await until(lambda: len(world.sinks["one"].records) == total)
    await until(lambda: not delivery.full)
    await world.close(delivery)
    assert len(set(world.sinks["two"].ids)) == len(world.sinks["two"].ids) == total


async def test_f16_beyond_the_cap_payloads_go_first_then_the_oldest_usage_and_all_is_counted(
    world: SpoolWorld,
) -> None:
    world.loggers["kept"].down = world.sinks["one"].down = True
    delivery = await world.open("one", terms=SpoolTerms(max_bytes=200_000), memory=10)
    line, logger = delivery.lines[0], None
    delivery.switch_payloads(("kept",))
    for _ in range(60):
        delivery.put_payload(payload())
    await until(lambda: delivery.desk.held_bytes == 0)
    for _ in range(20):
        for _ in range(30):
            delivery.put(usage_record())
        await delivery.spool.tend()
        logger = delivery.payload_lines.all[0]
        if line.dropped:
            assert logger.dropped > 0, "payloads go before usage"
    assert sum(stream.size for stream in delivery.spool.streams) <= 200_000
    world.sinks["one"].down = False
    await until(lambda: delivery.spool.usage.done == 600)
    await world.close(delivery, 0.1)
    arrived = world.sinks["one"].ids
    assert line.dropped > 0
    # A batch that was in memory already is delivered although its file is gone.
    assert 600 - line.dropped <= len(arrived) <= 600
    assert arrived == sorted(arrived)


async def test_f21_a_torn_end_is_cut_off_and_a_damaged_record_passed_over(
    world: SpoolWorld,
) -> None:
    world.sinks["one"].down = True
    first = await world.open("one")
    sent = [usage_record() for _ in range(10)]
    for one in sent:
        first.put(one)
    await world.kill(first)
    path = next((world.directory / "spool").glob("*/usage-*"))
    data = bytearray(path.read_bytes())
    data[data.index(sent[4].request_id.encode())] ^= 1
    path.write_bytes(bytes(data[:-5]))
    world.sinks["one"].down = False
    second = await world.open("one")
    await until(lambda: len(world.sinks["one"].records) == 8)
    assert second.spool.damaged("usage") == 1
    await world.close(second)
    wanted = [one.request_id for one in (*sent[:4], *sent[5:9])]
    assert world.sinks["one"].ids == wanted


async def test_f25_what_was_not_synced_is_all_that_a_loss_of_power_takes(
    world: SpoolWorld,
) -> None:
    world.sinks["one"].down = True
    first = await world.open("one")
    sent = [usage_record() for _ in range(10)]
    for one in sent[:6]:
        first.put(one)
    await first.spool.tend()
    size = first.spool.usage.size
    for one in sent[6:]:
        first.put(one)
    await world.kill(first)
    path = next((world.directory / "spool").glob("*/usage-*"))
    Disk().truncate(path, size + 3)
    world.sinks["one"].down = False
    await world.close(await world.open("one"))
    assert world.sinks["one"].ids == [one.request_id for one in sent[:6]]


async def test_with_sync_always_each_record_is_synced_before_the_next(tmp_path: Path) -> None:
    synced: list[int] = []

    class Watched(Disk):
        def sync(self, descriptor: int) -> None:
            synced.append(descriptor)
            super().sync(descriptor)

    world = SpoolWorld(tmp_path)
    delivery = await world.open(disk=Watched(), terms=SpoolTerms(sync="always"))
    synced.clear()
    for calls in range(1, 4):
        delivery.put(usage_record())
        assert len(synced) == calls
    await world.close(delivery)


async def test_without_any_disk_records_are_delivered_from_memory(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file where the directory should be")
    world = SpoolWorld(tmp_path)
    delivery = await world.open()
    sent = [usage_record() for _ in range(10)]
    for one in sent:
        delivery.put(one)
    await until(lambda: len(world.sinks["one"].records) == 10)
    assert "records are kept in memory" in dict(delivery.troubles())["spool"]
    await delivery.spool.tend()
    assert not delivery.spool.usage.reserve
    await world.close(delivery)


async def test_f27_payloads_wait_in_bounded_memory_and_never_hold_up_usage(
    world: SpoolWorld,
) -> None:
    world.loggers["kept"].down = True
    delivery = await world.open("one", payload_memory=20_000)
    delivery.switch_payloads(("kept",))
    for _ in range(50):
        delivery.put_payload(payload())
    assert delivery.desk.held_bytes <= 20_000
    assert delivery.desk.dropped > 40
    delivery.put(usage_record())
    await until(lambda: world.sinks["one"].records)
    await until(lambda: delivery.desk.held_bytes == 0)
    world.loggers["kept"].down = False
    await world.close(delivery)
    assert len(world.loggers["kept"].records) == 50 - delivery.desk.dropped


async def test_t53_files_are_the_owners_alone_and_no_link_is_followed(
    world: SpoolWorld, tmp_path: Path
) -> None:
    delivery = await world.open("one")
    delivery.put(usage_record(request_id="../../outside"))
    root = tmp_path / "spool"
    for path in (root, *root.rglob("*")):
        assert path.stat().st_mode & 0o077 == 0, path
    await until(lambda: world.sinks["one"].records)
    await world.close(delivery)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(OSError, match="link"):
        Disk().create(tmp_path / "link")
    assert not list(tmp_path.parent.glob("outside*"))


def opened(request_id: str) -> tuple[object, ...]:
    return (request_id, 1, "gateway", "", "", False, *[None] * 9, {})


def tear(path: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\xf5\xc1RGtorn")


def test_the_reserve_is_what_the_documentation_says() -> None:
    assert journal_module.RESERVE == 10_000


async def test_f20_a_sink_that_reads_the_files_gets_what_a_cut_write_has_whole(
    tmp_path: Path,
) -> None:
    for nth in count(1):
        world = world_in(tmp_path / str(nth), "one")
        disk = FailingDisk(nth, errno.ENOSPC, short=True)
        sent: list[UsageRecord] = []
        world.sinks["one"].down = True
        delivery = await world.open(disk=disk, terms=SpoolTerms(), memory=1)
        await work(delivery, sent, together=8)
        world.sinks["one"].down = False
        await until(partial(is_done, delivery))
        await world.close(delivery)
        assert world.sinks["one"].ids == [record.request_id for record in sent], (nth, disk.failed)
        if disk.failed is None:
            break
    assert nth > 10


async def test_what_comes_together_takes_one_write_and_one_sync(world: SpoolWorld) -> None:
    disk = CountingDisk()
    delivery = await world.open(disk=disk, terms=SpoolTerms(sync="always"))
    sent = [usage_record() for _ in range(5)]
    before = (disk.writes, disk.syncs)
    delivery.hold()
    for record in sent:
        delivery.announce(record.request_id, (record.request_id,))
        delivery.put(record)
    assert (disk.writes, disk.syncs) == before
    delivery.release()
    assert (disk.writes, disk.syncs) == (before[0] + 1, before[1] + 1)
    delivery.hold()
    delivery.release()
    assert (disk.writes, disk.syncs) == (before[0] + 1, before[1] + 1), "nothing, nothing written"
    await world.close(delivery)
    assert world.sinks["one"].ids == [record.request_id for record in sent]


class CountingDisk(Disk):
    """Counts what an append costs."""

    def __init__(self) -> None:
        self.writes = self.syncs = 0

    def write(self, descriptor: int, data: bytes | bytearray) -> int:
        self.writes += 1
        return super().write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        self.syncs += 1
        super().sync(descriptor)
