"""Sinks say how large they want batches to be, and how long a record may wait for that."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from relay_gateway.delivery.delivery import Delivery
from relay_gateway.errors import PluginUnavailableError
from relay_gateway.plugin import PayloadLogger, UsageRecord
from relay_gateway.testing.instances import until
from relay_gateway.testing.records import usage_record
from relay_gateway.testing.spools import ScriptedSink

AN_HOUR = 3600.0


class Counting(ScriptedSink):
    """Keeps the size of each batch."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.batches: list[int] = []

    async def write(self, records: Sequence[UsageRecord]) -> None:
        await super().write(records)
        self.batches.append(len(records))


@pytest.fixture
def sink(tmp_path: Path) -> Counting:
    return Counting(tmp_path)


@pytest.fixture
async def delivery(sink: Counting, tmp_path: Path) -> AsyncIterator[Delivery]:
    def no_logger(name: str) -> PayloadLogger:
        raise PluginUnavailableError(name)

    sink.batch_seconds = AN_HOUR
    sink.batch_records = 10
    delivery = Delivery(tmp_path, lambda _: sink, no_logger, lambda _name, _error: None)
    await delivery.open(["one"])
    yield delivery
    await delivery.aclose(5.0)


def put(delivery: Delivery, count: int) -> None:
    for _ in range(count):
        delivery.put(usage_record())


async def test_a_batch_goes_as_soon_as_it_is_full(delivery: Delivery, sink: Counting) -> None:
    put(delivery, 9)
    await asyncio.sleep(0.1)  # an hour would have to pass, and has not
    assert sink.batches == []
    put(delivery, 1)
    await until(lambda: bool(sink.batches))
    assert sink.batches == [10]


async def test_no_batch_is_larger_than_the_sink_wants(delivery: Delivery, sink: Counting) -> None:
    put(delivery, 35)
    await until(lambda: len(sink.records) == 30)
    await asyncio.sleep(0.1)
    assert sink.batches == [10, 10, 10], "and the rest waits for others"


async def test_the_end_waits_for_no_batch_to_be_full(delivery: Delivery, sink: Counting) -> None:
    put(delivery, 3)
    await delivery.aclose(5.0)
    assert sink.batches == [3]


async def test_a_sink_that_is_switched_off_gets_the_rest_at_once(
    delivery: Delivery, sink: Counting
) -> None:
    put(delivery, 4)
    await asyncio.sleep(0)
    delivery.switch([])
    await until(lambda: sink.batches == [4])


async def test_a_batch_goes_when_its_first_record_has_waited_long_enough(
    sink: Counting, tmp_path: Path, delivery: Delivery
) -> None:
    await delivery.aclose(5.0)
    sink.batch_seconds = 0.02
    again = Delivery(tmp_path, lambda _: sink, lambda _: None, lambda _name, _error: None)  # type: ignore[arg-type,return-value]
    await again.open(["one"])
    put(again, 2)
    await until(lambda: sink.batches == [2])
    await again.aclose(5.0)


class Booking:
    """A consumer that is slow to want its records."""

    name = "booking"
    batch_seconds = 0.3

    def __init__(self) -> None:
        self.batches: list[int] = []

    async def positions(self, spool: str) -> int:
        return 0

    async def take(self, records: Sequence[UsageRecord], spool: str, position: int) -> None:
        self.batches.append(len(records))


async def test_a_consumer_is_given_in_one_batch_what_came_in_its_time(
    sink: Counting, tmp_path: Path
) -> None:
    booking = Booking()
    delivery = Delivery(tmp_path / "b", lambda _: sink, lambda _: None, lambda _name, _error: None)  # type: ignore[arg-type,return-value]
    await delivery.open([], [booking])
    put(delivery, 1)
    await until(lambda: booking.batches == [1])
    for _ in range(10):
        put(delivery, 70)
        await asyncio.sleep(0.005)
    await until(lambda: sum(booking.batches) == 701)
    assert len(booking.batches) <= 3
    put(delivery, 1)
    await delivery.aclose(5.0)
    assert sum(booking.batches) == 702, "the end waits for nothing"
