"""An answer that breaks off counts against its host, and one that ends is its host's success."""

from __future__ import annotations

import pytest

from relay_gateway.errors import (
    UpstreamClosedError,
    UpstreamError,
    UpstreamProtocolError,
    UpstreamTimeoutError,
)
from relay_gateway.plugin import UsageRecord
from relay_gateway.testing.exchanges import FakeExchange
from relay_gateway.testing.world import PipelineWorld, open_stream

STREAM = b'{"model":"m","stream":true}'
BROKEN = UpstreamClosedError("reset")


@pytest.fixture
def world(world: PipelineWorld) -> PipelineWorld:
    """One with a single host."""
    bindings = world.draft.rows[4].spec["bindings"]
    world.draft.rows[4].spec["bindings"] = bindings[:1]
    world.publish()
    return world


async def stream(world: PipelineWorld, end: UpstreamError | None) -> UsageRecord:
    """One streamed request; its answer ends, or breaks off."""
    world.records.clear()
    exchange, caller = open_stream(), world.caller(STREAM)
    exchange.push(b"data: one\n\n")
    world.client.replies = [exchange]
    await world.handle(caller)
    finish(exchange, end)
    await caller.wait_for_end()
    return world.record()


def finish(exchange: FakeExchange, end: UpstreamError | None) -> None:
    if end is None:
        exchange.push(b"data: end\n\n")
        exchange.end()
    else:
        exchange.fail(end)


def state(world: PipelineWorld) -> str:
    return world.dispatcher.breakers.describe(world.east).state


@pytest.mark.parametrize(
    "error",
    [
        BROKEN,
        UpstreamProtocolError("not chunked"),
        UpstreamTimeoutError("silent", phase="idle"),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_f35_a_host_that_breaks_every_stream_off_is_ejected(
    world: PipelineWorld, error: UpstreamError
) -> None:
    for _ in range(4):
        await stream(world, error)
    assert state(world) == "available"
    record = await stream(world, error)
    assert (state(world), record.status, record.error_code) == ("ejected", 200, error.reason)


async def test_f35_a_stream_without_its_own_end_counts_as_broken_off(world: PipelineWorld) -> None:
    for _ in range(5):
        exchange, caller = open_stream(), world.caller(STREAM)
        exchange.push(b"data: usage 3:1\n\n")
        world.client.replies = [exchange]
        await world.handle(caller)
        exchange.end()
        await caller.wait_for_end()
    assert world.records[-1].error_code == "stream_truncated"
    assert state(world) == "ejected"


async def test_f35_a_stream_that_ends_is_a_success_only_then(world: PipelineWorld) -> None:
    for _ in range(4):
        await stream(world, BROKEN)
    await stream(world, None)
    await stream(world, BROKEN)
    assert state(world) == "available"


async def test_f55_a_caller_who_leaves_says_nothing_of_the_host(world: PipelineWorld) -> None:
    for _ in range(4):
        await stream(world, BROKEN)
    for _ in range(3):
        exchange, caller = open_stream(), world.caller(STREAM)
        exchange.push(b"data: one\n\n")
        world.client.replies = [exchange]
        await world.handle(caller)
        caller.disconnect()
        assert exchange.cancelled
    assert state(world) == "available"
    await stream(world, BROKEN)
    assert state(world) == "ejected"


async def test_an_answer_that_took_longer_than_it_was_given_is_no_failure_of_its_host(
    world: PipelineWorld,
) -> None:
    for _ in range(6):
        record = await stream(world, UpstreamTimeoutError("an hour is over", phase="total"))
    assert (record.outcome, state(world)) == ("timeout", "available")


async def test_f41_the_request_that_tries_a_host_brings_it_back_with_the_head_of_its_answer(
    world: PipelineWorld,
) -> None:
    for _ in range(5):
        await stream(world, BROKEN)
    world.clock.advance(34)
    assert state(world) == "half-open"
    exchange, caller = open_stream(), world.caller(STREAM)
    exchange.push(b"data: one\n\n")
    world.client.replies = [exchange]
    await world.handle(caller)
    assert state(world) == "available"
    exchange.end()
    await caller.wait_for_end()
