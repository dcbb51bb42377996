"""Settings that are changed at run time decide about the next request, and about none under way."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from relay_gateway.catalog.sections import Inference, Routing, RuntimeSettings
from relay_gateway.errors import UpstreamConnectError
from relay_gateway.testing.world import PipelineWorld, json_answer, open_stream


@pytest.fixture
def world(tmp_path: Path) -> PipelineWorld:
    return PipelineWorld(tmp_path)


def put(world: PipelineWorld, settings: RuntimeSettings) -> None:
    world.live.swap(replace(world.live.current, settings=settings))


@pytest.mark.parametrize(("allowed", "sent"), [(1, 1), (2, 2), (20, 2)])
async def test_max_attempts_bounds_how_many_upstreams_may_fail(
    world: PipelineWorld, allowed: int, sent: int
) -> None:
    put(world, RuntimeSettings(routing=Routing(max_attempts=allowed)))
    caller = world.caller()
    failure = UpstreamConnectError("refused")
    record = await world.run(caller, failure, failure, failure, failure)
    assert (caller.status, len(record.attempts)) == (502, sent)


async def test_upstream_errors_are_replaced_where_they_must_not_be_seen(
    world: PipelineWorld,
) -> None:
    put(world, RuntimeSettings(inference=Inference(expose_upstream_errors=False)))
    caller = world.caller()
    reply = json_answer(400, b'{"error":"account 4711 is over quota"}', retry_after="7")
    record = await world.run(caller, reply)
    assert caller.status == 400
    assert b"4711" not in b"".join(caller.chunks)
    assert b"upstream refused the request with status 400" in b"".join(caller.chunks)
    assert b"retry-after: 7\r\n" in caller.header_block
    assert (record.outcome, record.status, record.error_code) == (
        "upstream_error", 400, "upstream_error",
    )  # fmt: skip


async def test_upstream_errors_are_passed_on_by_default(world: PipelineWorld) -> None:
    caller = world.caller()
    await world.run(caller, json_answer(400, b'{"error":"account 4711 is over quota"}'))
    assert b"".join(caller.chunks) == b'{"error":"account 4711 is over quota"}'


@pytest.mark.parametrize("injected", [True, False])
async def test_usage_is_asked_of_a_stream_only_where_it_may_be(
    world: PipelineWorld, *, injected: bool
) -> None:
    put(world, RuntimeSettings(inference=Inference(inject_stream_usage=injected)))
    body = b'{"model":"m","stream":true}'
    exchange = open_stream()
    exchange.push(b"data: one\n\ndata: usage 3:5\n\ndata: end\n\n")
    exchange.end()
    caller = world.caller(body)
    await world.run(caller, exchange)
    assert (world.client.sent[0][1].body == body) is not injected
    assert (b"usage" in caller.body) is not injected
