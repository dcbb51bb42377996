"""Whoever has the whole of an answer is accounted for: the record is written before the last bytes
go out, so that a process that is killed right after an answer loses nothing of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from relay_gateway.errors import UpstreamClosedError
from relay_gateway.plugin import UsageRecord
from relay_gateway.testing.callers import FakeCaller
from relay_gateway.testing.world import PipelineWorld, json_answer, open_stream

STREAM = b'{"model":"m","stream":true}'


class Records(list[UsageRecord]):
    """Notes what the caller had of its answer when each record came."""

    def __init__(self, caller: FakeCaller) -> None:
        super().__init__()
        self._caller = caller
        self.had: list[tuple[bytes, bool]] = []

    def append(self, record: UsageRecord) -> None:
        self.had.append((self._caller.body, self._caller.finished))
        super().append(record)


Watch = Callable[[FakeCaller], Records]


@pytest.fixture
def watch(world: PipelineWorld) -> Watch:
    def watch(caller: FakeCaller) -> Records:
        records = world.records = Records(caller)
        world.limit_by(world.limiter)
        return records

    return watch


async def test_a_whole_answer_goes_out_after_its_record(world: PipelineWorld, watch: Watch) -> None:
    caller = world.caller()
    records = watch(caller)
    record = await world.run(caller, json_answer(body=b"3:5"))
    assert records.had == [(b"", False)]
    assert (caller.body, record.bytes_out, record.tokens) == (b"3:5", 3, {"input": 3, "output": 5})


@pytest.mark.parametrize("status", [400, 401, 500])
async def test_an_error_of_the_upstream_goes_out_after_its_record(
    world: PipelineWorld, watch: Watch, status: int
) -> None:
    caller = world.caller()
    records = watch(caller)
    answers = [json_answer(status, b'{"error":{"message":"no"}}') for _ in range(3)]
    record = await world.run(caller, *answers)
    assert records.had == [(b"", False)]
    assert record.bytes_out == caller.bytes_out > 0


async def test_a_refusal_goes_out_after_its_record(world: PipelineWorld, watch: Watch) -> None:
    caller = world.caller(b'{"model":"another"}')
    records = watch(caller)
    record = await world.run(caller)
    assert records.had == [(b"", False)]
    assert (record.outcome, record.bytes_out) == ("rejected", len(caller.body))


async def test_the_end_of_a_stream_goes_out_after_its_record(
    world: PipelineWorld, watch: Watch
) -> None:
    caller, exchange = world.caller(STREAM), open_stream()
    records = watch(caller)
    exchange.push(b"data: one\n\n")
    world.client.replies = [exchange]
    await world.handle(caller)
    exchange.push(b"data: end\n\n")
    exchange.push(b"data: usage 3:5\n\n")
    assert not records.had
    exchange.end()
    assert records.had == [(b"data: one\n\ndata: end\n\n", False)]
    assert caller.finished
    assert world.record().tokens == {"input": 3, "output": 5}


async def test_the_last_word_of_a_stream_goes_out_after_its_record(
    world: PipelineWorld, watch: Watch
) -> None:
    caller, exchange = world.caller(STREAM), open_stream()
    records = watch(caller)
    exchange.push(b"data: usage 3:5\n\n")
    world.client.replies = [exchange]
    await world.handle(caller)
    before = caller.body
    exchange.push(b"data: over\n\n")
    assert records.had == [(before, False)]
    assert caller.body == before + b"data: over\n\n"
    exchange.fail(UpstreamClosedError("reset"))
    assert caller.aborted
    assert caller.body == before + b"data: over\n\n"
    record = world.record()
    assert (record.outcome, record.bytes_out) == ("ok", caller.bytes_out)


async def test_what_ends_a_broken_stream_goes_out_after_its_record(
    world: PipelineWorld, watch: Watch
) -> None:
    caller, exchange = world.caller(STREAM), open_stream()
    records = watch(caller)
    exchange.push(b"data: one\n\n")
    world.client.replies = [exchange]
    await world.handle(caller)
    exchange.fail(UpstreamClosedError("reset"))
    assert records.had == [(b"data: one\n\n", False)]
    assert caller.aborted
    record = world.record()
    assert (record.outcome, record.bytes_out) == ("aborted", caller.bytes_out)
