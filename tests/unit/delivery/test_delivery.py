"""Records reach each sink once and in their order, whatever another sink does."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from relay_gateway.delivery.line import Breaker
from relay_gateway.delivery.spool import SpoolTerms
from relay_gateway.plugin import UsageRecord
from relay_gateway.testing.instances import until
from relay_gateway.testing.records import usage_record
from relay_gateway.testing.spools import SpoolWorld

SMALL = SpoolTerms(segment_bytes=20_000)


def records(count: int) -> list[UsageRecord]:
    return [usage_record() for _ in range(count)]


def ids(of: Sequence[UsageRecord]) -> list[str]:
    return [record.request_id for record in of]


async def test_records_arrive_in_order_and_in_few_batches(world: SpoolWorld) -> None:
    delivery = await world.open()
    sent = records(1200)
    for one in sent:
        delivery.put(one)
    await world.close(delivery)
    assert world.sinks["one"].records == world.sinks["two"].records == sent
    assert world.sinks["one"].writes <= 4
    assert world.spools == []


async def test_f16_a_sink_that_is_down_gets_everything_in_order_later(world: SpoolWorld) -> None:
    world.sinks["two"].down = True
    delivery = await world.open(terms=SMALL, memory=50)
    sent = records(1500)
    for start in range(0, 1500, 100):
        for one in sent[start : start + 100]:
            delivery.put(one)
        await delivery.spool.tend()
    await until(lambda: len(world.sinks["one"].records) == 1500)
    line = next(line for line in delivery.lines if line.name == "two")
    await until(lambda: line.breaker is not Breaker.CLOSED)
    assert line.depth == 1500
    assert "ConnectionError: down" in dict(delivery.troubles())["usage sink two"]
    world.sinks["two"].down = False
    await until(lambda: len(world.sinks["two"].records) == 1500)
    assert world.sinks["two"].ids == world.sinks["one"].ids == ids(sent)
    assert line.breaker is Breaker.CLOSED
    assert not dict(delivery.troubles())


async def test_memory_for_a_sink_that_lags_is_bounded(world: SpoolWorld) -> None:
    world.sinks["one"].gate.clear()
    delivery = await world.open("one", memory=10)
    line = delivery.lines[0]
    await until(lambda: line.waits)
    sent = records(600)
    for one in sent:
        delivery.put(one)
    assert line.held <= 10
    world.sinks["one"].gate.set()
    await world.close(delivery)
    assert world.sinks["one"].ids == ids(sent)


async def test_segments_that_every_sink_has_taken_are_removed(world: SpoolWorld) -> None:
    delivery = await world.open(terms=SMALL)
    for _ in range(10):
        for one in records(60):
            delivery.put(one)
        await delivery.spool.tend()
    await until(lambda: delivery.spool.usage.done == 600)
    await delivery.spool.tend()
    assert len(delivery.spool.usage.segments) == 1


async def test_f29_two_processes_share_a_directory(world: SpoolWorld) -> None:
    first, second = await world.open(), await world.open()
    assert len(world.spools) == 2
    mine, others = usage_record(), usage_record()
    first.put(mine)
    second.put(others)
    await world.close(first)
    await world.close(second)
    assert sorted(world.sinks["one"].ids) == sorted([mine.request_id, others.request_id])
    assert world.spools == []


async def test_f24_what_a_killed_process_has_left_is_delivered_by_the_next(
    world: SpoolWorld,
) -> None:
    for sink in world.sinks.values():
        sink.down = True
    first = await world.open(terms=SMALL)
    sent = records(300)
    for one in sent:
        first.announce(one.request_id, opened_as(one.request_id))
        first.put(one)
    open_one = usage_record()
    first.announce(open_one.request_id, opened_as(open_one.request_id))
    await world.kill(first)
    for sink in world.sinks.values():
        sink.down = False
    second = await world.open()
    later = usage_record()
    second.put(later)
    await until(lambda: len(world.sinks["one"].records) == 302)
    await world.close(second)
    assert world.spools == []
    for sink in world.sinks.values():
        assert sink.ids == [*ids(sent), open_one.request_id, later.request_id]
        interrupted = sink.records[300]
        assert (interrupted.outcome, interrupted.error_code, interrupted.status) == (
            "aborted",
            "interrupted",
            0,
        )
        assert (interrupted.endpoint, interrupted.host_id, interrupted.tags) == (
            "chat.completions",
            "host-1",
            {"team": "a"},
        )


async def test_a_request_in_flight_outlives_the_segment_it_was_announced_in(
    world: SpoolWorld,
) -> None:
    delivery = await world.open("one", terms=SMALL)
    delivery.announce("long", opened_as("long"))
    for _ in range(5):
        for one in records(60):
            delivery.put(one)
        await delivery.spool.tend()
    await until(lambda: delivery.spool.usage.done == 300)
    await delivery.spool.tend()
    await world.kill(delivery)
    second = await world.open("one")
    await until(lambda: "long" in world.sinks["one"].ids)
    await world.close(second)


async def test_a_process_that_ends_with_its_sink_down_leaves_the_rest_to_the_next(
    world: SpoolWorld,
) -> None:
    world.sinks["one"].down = True
    first = await world.open()
    sent = records(20)
    for one in sent:
        first.put(one)
    await until(lambda: len(world.sinks["two"].records) == 20)
    await world.close(first, 0.05)
    assert len(world.spools) == 1
    world.sinks["one"].down = False
    await world.close(await world.open())
    assert world.sinks["one"].ids == world.sinks["two"].ids == ids(sent)


async def test_f18_an_acknowledgement_that_is_lost_brings_the_batch_again(
    world: SpoolWorld,
) -> None:
    world.sinks["one"].forget_answers = 2
    delivery = await world.open("one")
    sent = records(5)
    for one in sent:
        delivery.put(one)
    await world.close(delivery)
    assert world.sinks["one"].ids == ids(sent) * 3


@pytest.mark.parametrize("place", [0, 57, 99])
async def test_a_record_that_is_refused_while_others_are_taken_is_set_aside(
    world: SpoolWorld, place: int
) -> None:
    delivery = await world.open("one")
    sent = records(100)
    poison = sent[place].request_id
    world.sinks["one"].poison.add(poison)
    for one in sent:
        delivery.put(one)
    later = 0
    line = delivery.lines[0]
    while not line.set_aside and later < 50:
        sent.append(usage_record())
        delivery.put(sent[-1])
        later += 1
        await asyncio.sleep(0.01)
    await world.close(delivery)
    assert line.set_aside == 1
    assert set(world.sinks["one"].ids) == set(ids(sent)) - {poison}
    kept = (world.directory / "spool" / "set-aside-usage.jsonl").read_text()
    assert poison in kept
    assert "one of the records is refused" in kept


async def test_nothing_is_set_aside_while_the_sink_takes_nothing(world: SpoolWorld) -> None:
    world.sinks["one"].down = True
    delivery = await world.open("one")
    sent = records(40)
    for one in sent:
        delivery.put(one)
    line = delivery.lines[0]
    await until(lambda: line.retries > 30)
    world.sinks["one"].down = False
    await world.close(delivery)
    assert line.set_aside == 0
    assert sorted(world.sinks["one"].ids) == sorted(ids(sent))


async def test_sinks_switched_ten_times_under_load_get_exactly_their_records(
    world: SpoolWorld,
) -> None:
    delivery = await world.open("one", terms=SMALL, memory=20)
    wanted: dict[str, list[str]] = {"one": [], "two": []}
    for turn in range(10):
        names = (("one",), ("two",), ("one", "two"))[turn % 3]
        delivery.switch(names)
        for one in records(70):
            delivery.put(one)
            for name in names:
                wanted[name].append(one.request_id)
            if one.request_id[-1] in "0123":
                await asyncio.sleep(0)
    await world.close(delivery)
    assert {name: sink.ids for name, sink in world.sinks.items()} == wanted
    assert world.spools == []


async def test_a_switch_is_remembered_by_the_records_of_a_killed_process(
    world: SpoolWorld,
) -> None:
    for sink in world.sinks.values():
        sink.down = True
    first = await world.open("one")
    before, after = records(10), records(10)
    for one in before:
        first.put(one)
    first.switch(("two",))
    for one in after:
        first.put(one)
    await world.kill(first)
    for sink in world.sinks.values():
        sink.down = False
    await world.close(await world.open("two"))
    assert world.sinks["one"].ids == ids(before)
    assert world.sinks["two"].ids == ids(after)


async def test_a_sink_that_was_switched_off_is_told_of_when_it_has_everything(
    world: SpoolWorld,
) -> None:
    delivery = await world.open("one")
    world.sinks["one"].gate.clear()
    delivery.put(usage_record())
    delivery.switch(("two",))
    await delivery.spool.tend()
    assert world.finished == []
    world.sinks["one"].gate.set()
    await until(lambda: world.finished)
    assert world.finished == [("usage sink", "one")]
    assert len(world.sinks["one"].records) == 1


async def test_records_for_a_sink_that_is_gone_are_held_and_told_of(world: SpoolWorld) -> None:
    world.sinks["one"].down = True
    first = await world.open("one")
    first.put(usage_record())
    await world.kill(first)
    gone = world.sinks.pop("one")
    second = await world.open("two")
    assert dict(second.troubles())["usage sink one"] == (
        "there is no one; what was left for it stays in the spool"
    )
    await world.close(second)
    assert len(world.spools) == 1
    gone.down = False
    world.sinks["one"] = gone
    await world.close(await world.open("two"))
    assert (len(gone.records), world.spools) == (1, [])


async def test_a_sink_that_is_there_again_gets_what_was_held_and_what_comes(
    world: SpoolWorld,
) -> None:
    world.sinks["one"].down = True
    sent = records(3)
    killed = await world.open("one")
    for one in sent[:2]:
        killed.put(one)
    await world.kill(killed)
    gone = world.sinks.pop("one")
    delivery = await world.open("one", "two")
    delivery.put(usage_record())
    delivery.renew()
    assert "usage sink one" in dict(delivery.troubles())
    gone.down = False
    world.sinks["one"] = gone
    delivery.renew()
    assert dict(delivery.troubles()) == {}
    delivery.put(sent[2])
    await until(lambda: len(gone.records) == 3 and len(world.sinks["two"].records) == 2)
    await world.close(delivery)
    assert gone.ids == ids(sent)
    assert world.spools == []


class Counting:
    """A consumer that keeps its position with what it counted."""

    name = "counting"
    batch_seconds = 0.01

    def __init__(self) -> None:
        self.counted: list[str] = []
        self.at: dict[str, int] = {}
        self.lost_answers = 0

    async def positions(self, spool: str) -> int:
        return self.at.get(spool, 0)

    async def take(self, taken: Sequence[UsageRecord], spool: str, position: int) -> None:
        assert position > self.at.get(spool, 0)
        if self.lost_answers:
            self.lost_answers -= 1
            raise ConnectionError("not stored")
        self.counted += ids(taken)
        self.at[spool] = position


async def test_a_positioned_consumer_counts_every_record_once_over_a_kill(
    world: SpoolWorld,
) -> None:
    counting = Counting()
    counting.lost_answers = 4
    sent = records(30)
    first = await world.open("one", consumers=[counting])
    for one in sent[:20]:
        first.put(one)
    await until(lambda: len(counting.counted) == 20)
    # What it acknowledged is not on the disk yet.
    await world.kill(first)
    second = await world.open("two", consumers=[counting])
    for one in sent[20:]:
        second.put(one)
    await until(lambda: len(counting.counted) == 30)
    await world.close(second)
    assert counting.counted == ids(sent)


def opened_as(request_id: str) -> tuple[object, ...]:
    return (
        request_id, 1_700_000_000_000_000_000, "gateway", "chat.completions", "acme.chat", False,
        None, "key-1", "policy-1", None, None, "a-model", "host-1", None, "127.0.0.1",
        {"team": "a"},
    )  # fmt: skip
