"""When the gateway has no more time: what is open is broken off, and never passes for complete."""

from __future__ import annotations

import asyncio

import pytest

from relay_gateway.testing.callers import FakeCaller
from relay_gateway.testing.exchanges import FakeExchange
from relay_gateway.testing.world import PipelineWorld, json_answer, open_stream

STREAM = b'{"model":"m","stream":true}'


async def begun(world: PipelineWorld, first: bytes) -> tuple[FakeCaller, FakeExchange]:
    """A stream of which ``first`` has come."""
    exchange = open_stream()
    exchange.push(first)
    caller = world.caller(STREAM)
    world.client.replies = [exchange]
    await world.handle(caller)
    return caller, exchange


async def test_f23_an_open_stream_ends_with_an_error_event_and_is_interrupted(
    world: PipelineWorld,
) -> None:
    caller, exchange = await begun(world, b"data: usage 3:1\n\ndata: ha")
    world.pipeline.interrupt()
    assert exchange.cancelled
    assert caller.aborted
    assert caller.body.startswith(b"data: ha\n\ndata: {")
    assert b'"interrupted"' in caller.body
    record = world.record()
    assert (record.outcome, record.error_code) == ("aborted", "interrupted")
    assert record.tokens == {"input": 3, "output": 1}
    assert world.pools.state(world.keys[0]).in_flight == 0


async def test_f23_a_stream_that_has_said_its_last_word_is_a_success(world: PipelineWorld) -> None:
    caller, exchange = await begun(world, b"data: one\n\ndata: end\n\n")
    world.pipeline.interrupt()
    assert exchange.cancelled
    assert (caller.finished, caller.aborted) == (True, False)
    assert caller.body == b"data: one\n\ndata: end\n\n"
    assert world.record().outcome == "ok"


async def test_f23_a_body_that_is_no_stream_is_cut(world: PipelineWorld) -> None:
    exchange = json_answer(body=None)
    exchange.push(b"3:")
    caller = world.caller()
    world.client.replies = [exchange]
    await world.handle(caller)
    world.pipeline.interrupt()
    assert (caller.aborted, caller.body) == (True, b"3:")
    assert world.record().error_code == "interrupted"


async def test_f23_a_request_without_an_answer_yet_is_refused_in_the_callers_words(
    world: PipelineWorld,
) -> None:
    caller = world.caller()
    world.client.replies = [None]
    task = asyncio.ensure_future(world.handle(caller))
    await world.client.asked.wait()
    task.cancel("the gateway stops")
    with pytest.raises(asyncio.CancelledError):
        await task
    assert caller.status == 503
    assert b'"interrupted"' in caller.body
    assert caller.answer_headers.get(b"retry-after") is not None
    record = world.record()
    assert (record.outcome, record.error_code) == ("aborted", "interrupted")


async def test_what_has_ended_cannot_be_interrupted(world: PipelineWorld) -> None:
    caller, exchange = await begun(world, b"data: end\n\n")
    exchange.end()
    gone, _ = await begun(world, b"data: one\n\n")
    gone.disconnect()
    world.pipeline.interrupt()
    assert (caller.aborted, gone.aborted) == (False, False)
    assert [record.outcome for record in world.records] == ["ok", "cancelled"]
