"""What is asked again after a failure, where, how often, and what the caller is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from relay_gateway.catalog.sections import DEFAULTS, Routing
from relay_gateway.errors import (
    UpstreamClosedError,
    UpstreamConnectError,
    UpstreamOverloadedError,
    UpstreamTimeoutError,
)
from relay_gateway.plugin import Classification, Scope, UsageRecord, Verdict
from relay_gateway.testing.callers import FakeCaller
from relay_gateway.testing.world import PipelineWorld, Reply, json_answer


async def ask(world: PipelineWorld, *replies: Reply) -> tuple[FakeCaller, UsageRecord]:
    world.records.clear()
    caller = world.caller()
    return caller, await world.run(caller, *replies)


def one_host(world: PipelineWorld, *, keys: int = 1) -> None:
    """Leaves one host with this many keys."""
    bindings = world.draft.rows[4].spec["bindings"]
    world.draft.rows[4].spec["bindings"] = bindings[:1]
    for row in world.draft.rows[5 + keys : 7]:
        row.spec["enabled"] = False
    world.publish()


def settle_routing(world: PipelineWorld, **fields: Any) -> None:
    from msgspec.structs import replace

    settings = replace(DEFAULTS, routing=Routing(**fields))
    world.live.swap(replace(world.snapshot(), settings=settings))


def hosts(record: UsageRecord, world: PipelineWorld) -> str:
    names = {world.east: "e", world.west: "w"}
    return "".join(names[attempt.host_id] for attempt in record.attempts)


async def test_the_only_host_and_key_are_asked_again_after_a_pause(world: PipelineWorld) -> None:
    one_host(world)
    caller, record = await ask(world, json_answer(503), json_answer(503), json_answer())
    assert caller.status == 200
    assert b"X-Relay-Attempts: 3\r\n" in caller.header_block
    assert [attempt.status for attempt in record.attempts] == [503, 503, 200]
    assert len(world.pauses) == 2
    assert 0.05 <= world.pauses[0] <= 0.1 <= world.pauses[1] <= 0.2


async def test_another_host_is_asked_without_a_pause(world: PipelineWorld) -> None:
    world.draft.rows[4].spec["bindings"][1]["priority"] = 1
    world.draft.rows[6].spec["enabled"] = False
    world.publish()
    _, record = await ask(world, json_answer(500), json_answer())
    assert (hosts(record, world), world.pauses) == ("ew", [])


@pytest.mark.parametrize("status", [408, 409, 500, 502, 503, 504, 529])
async def test_f41_a_failure_that_may_pass_is_tried_again(
    world: PipelineWorld, status: int
) -> None:
    one_host(world)
    caller, _ = await ask(world, json_answer(status), json_answer())
    assert caller.status == 200


async def test_f33_a_request_that_may_have_been_read_is_not_sent_to_the_same_host_again(
    world: PipelineWorld,
) -> None:
    one_host(world)
    for error in (
        UpstreamClosedError("reset"),
        UpstreamTimeoutError("slow", phase="first_byte"),
        UpstreamOverloadedError("full"),
    ):
        caller, record = await ask(world, error)
        assert (len(record.attempts), caller.status >= 500) == (1, True)


async def test_f31_a_host_that_could_not_be_reached_is_tried_again(world: PipelineWorld) -> None:
    one_host(world, keys=2)
    refused = UpstreamConnectError("refused", sent=False)
    caller, record = await ask(world, refused, json_answer())
    assert (caller.status, hosts(record, world)) == (200, "ee")
    assert len(world.pauses) == 1


async def test_a_host_that_asks_for_more_time_is_not_asked_again_by_the_same_request(
    world: PipelineWorld,
) -> None:
    one_host(world)
    later = json_answer(503)
    later.headers.add(b"retry-after", b"30")
    caller, record = await ask(world, later)
    assert (caller.status, len(record.attempts), world.pauses) == (503, 1, [])


async def test_no_request_makes_more_attempts_than_it_may(world: PipelineWorld) -> None:
    one_host(world)
    settle_routing(world, maxAttempts=2)
    caller, record = await ask(world, json_answer(500), json_answer(502), json_answer())
    assert (caller.status, len(record.attempts)) == (502, 2)


async def test_a_budget_of_zero_allows_no_retry_and_every_rotation(world: PipelineWorld) -> None:
    settle_routing(world, retryBudgetRatio=0)
    caller, record = await ask(world, json_answer(429), json_answer(401), json_answer())
    assert (caller.status, len(record.attempts)) == (200, 3)
    world.pools.reset(world.keys[0])
    caller, record = await ask(world, json_answer(500), json_answer())
    assert (caller.status, len(record.attempts)) == (500, 1)
    assert world.dispatcher.budget.denied == 1


async def test_f41_all_requests_share_one_budget(world: PipelineWorld) -> None:
    one_host(world)
    attempts = 0
    for _ in range(4):
        _, record = await ask(world, *[json_answer(500) for _ in range(3)])
        attempts += len(record.attempts)
    # Four requests: three retries are free, and a fifth of the requests makes no whole one more.
    assert attempts == 5


async def test_f41_an_ejected_host_is_passed_over_and_its_keys_are_as_good_as_ever(
    world: PipelineWorld,
) -> None:
    world.draft.rows[4].spec["bindings"][1]["priority"] = 1
    world.publish()
    for _ in range(2):
        await ask(world, json_answer(500), json_answer(500), json_answer())
    _, record = await ask(world, json_answer(500), json_answer())
    assert world.dispatcher.breakers.describe(world.east).state == "ejected"
    _, record = await ask(world, json_answer())
    assert hosts(record, world) == "w"
    assert {str(world.pools.describe(one)["state"]) for one in world.keys} == {"available"}
    world.clock.advance(34)
    _, record = await ask(world, json_answer())
    assert hosts(record, world) == "e"
    assert world.dispatcher.breakers.describe(world.east).state == "available"


async def test_a_host_that_everything_depends_on_is_tried_once_in_a_while(
    world: PipelineWorld,
) -> None:
    one_host(world)
    settle_routing(world, maxAttempts=1)
    for _ in range(5):
        await ask(world, json_answer(500))
    for _ in range(3):
        caller, record = await ask(world)
        assert (caller.status, len(record.attempts)) == (503, 0)
        error = json.loads(caller.body)["error"]
        assert error["code"] == "no_available_host"
        assert 1 <= int(caller.answer_headers.get(b"retry-after") or 0) <= 35
    # The second ejection is longer than a probe's turn, and the host is tried all the same.
    world.clock.advance(34)
    await ask(world, json_answer(500))
    world.clock.advance(31)
    caller, _ = await ask(world, json_answer())
    assert caller.status == 200


async def test_a_caller_who_leaves_while_a_host_is_tried_leaves_it_to_the_next(
    world: PipelineWorld,
) -> None:
    import asyncio

    one_host(world)
    settle_routing(world, maxAttempts=1)
    for _ in range(5):
        await ask(world, json_answer(500))
    world.clock.advance(34)
    world.records.clear()
    world.client.replies, caller = [None], world.caller()
    world.client.asked.clear()
    task = asyncio.create_task(world.handle(caller))
    await world.client.asked.wait()
    caller.disconnected = True
    task.cancel()
    await asyncio.wait([task])
    caller, _ = await ask(world, json_answer())
    assert caller.status == 200


async def test_f39_the_smallest_wait_of_the_pool_is_told(world: PipelineWorld) -> None:
    one_host(world, keys=2)
    short, long = json_answer(429), json_answer(429)
    short.headers.add(b"retry-after", b"5")
    long.headers.add(b"retry-after", b"300")
    caller, record = await ask(world, short, long)
    assert (caller.status, len(record.attempts)) == (429, 2)
    assert 5 <= int(caller.answer_headers.get(b"retry-after") or 0) <= 6


@pytest.mark.parametrize("status", [429, 503])
async def test_f59_an_upstreams_429_or_503_always_says_when_to_come_back(
    world: PipelineWorld, status: int
) -> None:
    one_host(world)
    settle_routing(world, maxAttempts=1)
    caller, _ = await ask(world, json_answer(status))
    assert caller.status == status
    assert int(caller.answer_headers.get(b"retry-after") or 0) >= 1


@pytest.mark.parametrize("verdict", [Verdict.THROTTLED, Verdict.CREDENTIAL])
async def test_a_refusal_for_one_model_leaves_the_key_to_others(
    world: PipelineWorld, monkeypatch: pytest.MonkeyPatch, verdict: Verdict
) -> None:
    found = Classification(verdict, 20.0, Scope.MODEL)
    monkeypatch.setattr(world.provider, "classify", lambda *_: found)
    caller, record = await ask(world, json_answer(429), json_answer())
    assert caller.status == 200
    benched = record.attempts[0].host_key_id or ""
    assert not world.pools.serves(benched, world.model)
    assert world.pools.serves(benched, "another")
    assert world.pools.describe(benched)["state"] == "available"


async def test_a_throttled_host_is_the_hosts_trouble_and_not_the_keys(
    world: PipelineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_host(world)
    settle_routing(world, maxAttempts=1)
    found = Classification(Verdict.THROTTLED, 90.0, Scope.HOST)
    monkeypatch.setattr(world.provider, "classify", lambda *_: found)
    for _ in range(5):
        await ask(world, json_answer(429))
    state = world.dispatcher.breakers.describe(world.east)
    assert state.state == "ejected"
    assert state.seconds_left is not None
    assert state.seconds_left >= 90
    assert world.pools.describe(world.keys[0])["state"] == "available"
