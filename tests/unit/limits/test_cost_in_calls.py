"""What limits cost a request, in calls of functions: noise cannot move them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from relay_gateway.limits.choose import in_memory, memory_store
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.route import Plan, Router
from relay_gateway.plugin import Hold, Strategy, SystemClock
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.world import PipelineWorld

BODY = b'{"model":"m","max_tokens":40,"messages":[]}'


def calls_of(work: Callable[[], object]) -> int:
    """How many calls ``work`` makes, itself not counted."""
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls - 2  # itself, and the end of the profile


@pytest.mark.parametrize(
    "strategy", ["token-bucket", "sliding-window", "fixed-window", "session-window"]
)
def test_three_rules_are_reserved_and_settled_in_few_calls(strategy: Strategy) -> None:
    store = memory_store(SystemClock())
    holds = (
        Hold("requests", 1, 10**9, 60.0, strategy),
        Hold("tokens", 1000, 10**12, 60.0, strategy),
        Hold("slots", 1, 100, 600.0, "gauge"),
    )

    def request() -> None:
        store.reserve_now("r", holds)
        store.settle_now("r", holds, (1, 400, 0))

    request()
    assert min(calls_of(request) for _ in range(20)) <= 42


def admission(world: PipelineWorld) -> tuple[Call, Plan]:
    """A request that has come as far as its admission, and where it may go."""
    world.publish()
    snapshot = world.live.current
    (presented,) = snapshot.relay_keys.values()
    call = world.call(world.caller(BODY))
    call.relay_key, call.policy, call.body = presented.key, snapshot.policy_of(presented.key), BODY
    return call, Router().route(snapshot, call.policy, "m", "plain.chat", None)


@pytest.fixture
def world(tmp_path: Path) -> PipelineWorld:
    return PipelineWorld(tmp_path)


def test_a_request_without_limits_pays_for_one_call(world: PipelineWorld) -> None:
    call, plan = admission(world)
    assert calls_of(lambda: world.admission.admit_now(call, plan)) == 1
    assert call.reservation is None


def test_a_request_under_three_rules_pays_for_few_calls(
    world: PipelineWorld, clock: FakeClock
) -> None:
    rules = (
        {"meter": "requests", "amount": 10**6, "windowSeconds": 60},
        {"meter": "tokens", "amount": 10**9, "windowSeconds": 60},
        {"meter": "concurrency", "amount": 1000},
    )
    world.limit_by(in_memory(clock))
    rate_limit = world.rate_limit("three", *rules)
    world.change(world.policy, rateLimits=[{"rateLimitId": rate_limit}])
    for key in world.keys:
        world.change(key, policyId=world.draft.policy("free"))
    first, plan = admission(world)
    world.admission.admit_now(first, plan)  # finds out which counters there are
    call = world.call(world.caller(BODY))
    call.relay_key, call.policy, call.body = first.relay_key, first.policy, BODY
    assert calls_of(lambda: world.admission.admit_now(call, plan)) <= 90
    assert call.reservation is not None
    assert len(call.reservation.claims) == 3
