"""Redis dies, hangs, is slow, comes back empty, fails over: no request waits for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from relay_gateway.catalog.limit_rules import LimitRule, OnStateLoss
from relay_gateway.errors import StateUnavailableError
from relay_gateway.limits.guarded_store import CALL_SECONDS, GuardedStore
from relay_gateway.limits.limiter import Claim, Limiter
from relay_gateway.limits.memory_store import MemoryStore
from relay_gateway.plugin import Hold, PluginConfig, SystemClock
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.faultproxy import Fault, FaultProxy
from relay_gateway.testing.plugin_tests import new_id
from relay_gateway_state_redis.testing.groups import RedisCluster, RedisSentinel
from relay_gateway_state_redis.testing.server import RedisServer

HOLD = [Hold("rule", 1, 1_000_000, 60.0, "sliding-window")]
NOISE = 0.03
"""Seconds that a timer may be late besides what the event loop was measured to be."""
PAUSE, ATTEMPTS = 0.02, 750


@dataclass(slots=True)
class Waits:
    """How long callers waited, and how late the event loop itself was meanwhile."""

    longest: float = 0.0
    lag: float = 0.0
    answers: list[bool] = field(default_factory=list)

    def assert_short(self) -> None:
        allowed = CALL_SECONDS + self.lag + NOISE
        assert self.longest <= allowed, f"waited {self.longest:.3f} s, lag {self.lag:.3f} s"


@asynccontextmanager
async def measured(waits: Waits) -> AsyncIterator[None]:
    """Measures how late timers are meanwhile."""

    async def tick() -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(0.005)
            waits.lag = max(waits.lag, time.perf_counter() - begun - 0.005)

    ticking = asyncio.ensure_future(tick())
    try:
        yield
    finally:
        ticking.cancel()
        await asyncio.gather(ticking, return_exceptions=True)


async def ask(guarded: GuardedStore, waits: Waits) -> bool:
    """One request: whether the store answered it."""
    begun = time.perf_counter()
    request_id = new_id()
    try:
        await guarded.reserve(request_id, HOLD)
    except StateUnavailableError:
        answered = False
    else:
        answered = True
        guarded.settle(request_id, HOLD, [1])
    waits.longest = max(waits.longest, time.perf_counter() - begun)
    waits.answers.append(answered)
    return answered


async def ask_around(guarded: GuardedStore, rounds: int = 5, callers: int = 20) -> Waits:
    """Many requests, some at once; the breaker opens on the way where the store is away."""
    waits = Waits()
    async with measured(waits):
        for _ in range(rounds):
            await asyncio.gather(*(ask(guarded, waits) for _ in range(callers)))
    return waits


async def until_answered(guarded: GuardedStore) -> Waits:
    """Requests one after the other until the store answers again."""
    waits = Waits()
    async with measured(waits):
        for _ in range(ATTEMPTS):
            if await ask(guarded, waits):
                return waits
            await asyncio.sleep(PAUSE)
    raise AssertionError(f"the store did not answer again within {ATTEMPTS * PAUSE:.0f} s")


@asynccontextmanager
async def guarding(store: Any) -> AsyncIterator[GuardedStore]:
    guarded = GuardedStore(store, SystemClock())
    try:
        await until_answered(guarded)
        yield guarded
    finally:
        await guarded.aclose()


async def test_nobody_waits_for_a_redis_that_was_killed(
    own_server: RedisServer, opened: Any
) -> None:
    async with guarding(await opened(own_server.url)) as guarded:
        own_server.kill()
        waits = await ask_around(guarded)
        waits.assert_short()
        assert not any(waits.answers)
        own_server.restart()
        (await until_answered(guarded)).assert_short()


async def test_nobody_waits_for_a_redis_that_hangs(own_server: RedisServer, opened: Any) -> None:
    async with guarding(await opened(own_server.url)) as guarded:
        own_server.freeze()
        try:
            waits = await ask_around(guarded)
        finally:
            own_server.thaw()
        waits.assert_short()
        assert not any(waits.answers)
        (await until_answered(guarded)).assert_short()


async def test_f65_what_a_hanging_redis_took_in_the_end_is_given_back(
    own_server: RedisServer, opened: Any
) -> None:
    store = await opened(own_server.url, timeout_seconds=0.2)
    gauge = [Hold("rule", 1, 100, 60.0, "gauge")]
    guarded = GuardedStore(store, SystemClock())
    await guarded.reserve("held", gauge)
    own_server.freeze()
    outcomes = await asyncio.gather(
        *(guarded.reserve(f"r{number}", gauge) for number in range(20)), return_exceptions=True
    )
    assert {type(one) for one in outcomes} == {StateUnavailableError}
    # The connections are given up before it goes on, and it reads what they brought all the same.
    await asyncio.sleep(0.5)
    own_server.thaw()
    await guarded.aclose()
    for _ in range(ATTEMPTS):
        (left,) = (await store.reserve("probe", gauge)).remaining
        await store.settle("probe", gauge, [0])
        if left == 98:
            return
        await asyncio.sleep(PAUSE)
    raise AssertionError(f"{left} of 100 are left, where one is held and one asked for")


async def test_nobody_waits_for_a_redis_that_is_slow(server: RedisServer, opened: Any) -> None:
    async with FaultProxy("127.0.0.1", server.port) as proxy:
        store = await opened(f"redis://127.0.0.1:{proxy.port}")
        async with guarding(store) as guarded:
            proxy.to_client = Fault(latency=0.2)
            waits = await ask_around(guarded)
            waits.assert_short()
            assert not any(waits.answers)
            proxy.clear()
            (await until_answered(guarded)).assert_short()


async def test_nobody_waits_for_a_redis_behind_a_cut_cable(
    server: RedisServer, opened: Any
) -> None:
    async with FaultProxy("127.0.0.1", server.port) as proxy:
        store = await opened(f"redis://127.0.0.1:{proxy.port}", timeout_seconds=0.5)
        async with guarding(store) as guarded:
            proxy.to_server = proxy.to_client = Fault(blackhole=True)
            waits = await ask_around(guarded)
            waits.assert_short()
            proxy.clear()
            (await until_answered(guarded)).assert_short()


async def test_a_redis_that_comes_back_empty_counts_from_nothing(
    own_server: RedisServer, opened: Any
) -> None:
    store = await opened(own_server.url)
    async with guarding(store) as guarded:
        whole = [Hold("whole", 5, 5, 60.0, "sliding-window")]
        assert (await store.reserve("before", whole)).refused == -1
        assert (await store.reserve("too-much", whole)).refused == 0
        own_server.restart()
        (await until_answered(guarded)).assert_short()
        assert (await store.reserve("after", whole)).refused == -1
        await store.settle("before", whole, [9])
        assert (await store.reserve("refused", whole)).remaining == (0,)


async def test_a_sentinel_failover_is_followed_by_itself(
    sentinel: RedisSentinel, opened: Any
) -> None:
    store = await opened(sentinel.url)
    async with guarding(store) as guarded:
        assert sentinel.master_port == sentinel.servers[0].port
        sentinel.servers[0].kill()
        waits = await ask_around(guarded)
        waits.assert_short()
        assert not all(waits.answers)
        (await until_answered(guarded)).assert_short()
        assert sentinel.master_port == sentinel.servers[1].port


async def test_a_cluster_failover_is_followed_by_itself(opened: Any) -> None:
    with RedisCluster(replicas=True) as cluster:
        async with guarding(await opened(cluster.url)) as guarded:
            cluster.owner("{relay}:").kill()
            waits = await ask_around(guarded)
            waits.assert_short()
            assert not all(waits.answers)
            (await until_answered(guarded)).assert_short()


@pytest.mark.parametrize(
    ("on_state_loss", "refused"), [("local", [-1, -1, 0]), ("open", [-1] * 3), ("closed", [0] * 3)]
)
async def test_without_redis_each_rule_does_as_it_declares(
    own_server: RedisServer,
    opened: Any,
    tmp_path: Any,
    on_state_loss: OnStateLoss,
    refused: list[int],
) -> None:
    guarded = GuardedStore(await opened(own_server.url), SystemClock())
    limiter = Limiter(guarded, MemoryStore(PluginConfig(), plugin_context(tmp_path)))
    rule = LimitRule(
        "rule", "rule", "requests", 2, 60.0, "sliding-window", on_state_loss=on_state_loss
    )
    claims = [Claim(rule, Hold("rule", 1, 2, 60.0, "sliding-window"))]
    own_server.freeze()
    try:
        found = [await limiter.reserve(new_id(), claims) for _ in range(3)]
    finally:
        own_server.thaw()
    assert [one.refused for one in found] == refused
    assert {one.lost for one in found} == {on_state_loss == "closed"}
    await limiter.aclose()
