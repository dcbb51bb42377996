"""The proofs of limits at full length."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from relay_gateway.limits import guarded_store
from relay_gateway.limits.choose import in_memory, limiter_over, memory_store
from relay_gateway.limits.immediate_store import ImmediateStore
from relay_gateway.limits.shared_store import SharedStore
from relay_gateway.plugin import Hold, PluginConfig, PluginContext
from relay_gateway.testing.cancel_storm import cancel_storm
from relay_gateway.testing.cancel_waves import PATIENCE, cancel_waves
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.held import MODEL, Held, running_held
from relay_gateway.testing.memory import resident_bytes
from relay_gateway.testing.world import PipelineWorld
from relay_gateway_state_redis import RedisConfig, RedisStore
from relay_gateway_state_redis.testing.server import RedisServer

CANCELS = 10_000
KEYS = 1_000_000
WAVE = 200


@pytest.fixture
def redis_server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@asynccontextmanager
async def shared(directory: Path, clock: FakeClock) -> AsyncIterator[SharedStore]:
    """The table of workers, as large as it is in production."""
    context = PluginContext(plugin="memory", data_dir=directory, database_url="", clock=clock)
    store = SharedStore(PluginConfig(), context, directory=directory / "limits", rows=16)
    await store.aopen()
    yield store
    await store.aclose()


@pytest.mark.parametrize("kind", ["memory", "table"])
async def test_t38_ten_thousand_cancelled_requests_leave_every_gauge_at_zero(
    tmp_path: Path, kind: str
) -> None:
    world = PipelineWorld(tmp_path)
    async with shared(tmp_path, world.clock) as store:
        limiter = limiter_over(store) if kind == "table" else in_memory(world.clock)
        remains = await cancel_storm(world, limiter, CANCELS)
        await limiter.aclose()
    assert remains.left_during[0] == 0
    assert (remains.left_after, remains.budget_after) == (remains.limits, 0)


async def test_t38_ten_thousand_cancelled_requests_leave_every_gauge_in_redis_at_zero(
    redis_server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guarded_store, "CALL_SECONDS", PATIENCE)
    monkeypatch.setattr(guarded_store, "LINGER_SECONDS", PATIENCE)
    config = RedisConfig(url=SecretStr(redis_server.url), timeout_seconds=PATIENCE / 2)
    store = RedisStore(config, plugin_context(tmp_path))
    await store.aopen()
    try:
        limits, left = await cancel_waves(limiter_over(store), CANCELS)
    finally:
        await store.aclose()
    assert left == limits


async def come_once(store: ImmediateStore, clock: FakeClock) -> None:
    """A million keys, each of which is asked for once, while another one is in use."""
    steady = Hold("steady", 1, 1000, 864e5, "fixed-window")
    granted = 0
    for number in range(KEYS):
        hold = Hold(f"one-off {number}", 1, 10, 1.0, "token-bucket")
        assert store.reserve_now(f"r{number}", (hold,)).refused < 0
        store.settle_now(f"r{number}", (hold,), (1,))
        if number % 100 == 0:
            clock.advance(0.01)
            granted += store.reserve_now(f"s{number}", (steady,)).refused < 0
    assert granted == steady.limit


async def test_a_million_keys_that_come_once_stay_neither_in_memory(tmp_path: Path) -> None:
    clock = FakeClock()
    store = memory_store(clock)
    before = resident_bytes(os.getpid())
    await come_once(store, clock)
    assert len(store) < 60_000
    assert resident_bytes(os.getpid()) - before < 100 * 2**20


async def test_nor_in_the_table_of_workers(tmp_path: Path) -> None:
    clock = FakeClock()
    async with shared(tmp_path, clock) as store:
        size = sum(path.stat().st_size for path in (tmp_path / "limits").iterdir())
        before = resident_bytes(os.getpid())
        await come_once(store, clock)
        after = sum(path.stat().st_size for path in (tmp_path / "limits").iterdir())
        assert after == size
        # The table itself, each page of which is in memory by then, and what is known of it.
        assert resident_bytes(os.getpid()) - before < size + 200 * 2**20


async def until_slots(held: Held, slots: int) -> None:
    """Waits until just so many streams begin; they are closed again."""
    async with asyncio.timeout(30):
        while True:
            calls = [await held.ask(stream=True) for _ in range(slots + 1)]
            heads = [await call.reader.readuntil(b"\r\n\r\n") for call in calls]
            for call in calls:
                call.writer.close()
            if [b" 200 " in head[:16] for head in heads] == [True] * slots + [False]:
                return
            await asyncio.sleep(0.1)


@pytest.mark.parametrize("workers", ["1", "4"])
async def test_t38_ten_thousand_callers_that_leave_free_their_slots(
    tmp_path: Path, workers: str
) -> None:
    async with running_held(tmp_path, "openai", {"RELAY_WORKERS": workers}) as held:
        scenario = held.scenario
        rule = {"meter": "concurrency", "amount": WAVE}
        rate_limit = await scenario.create("rate-limits", "slots", rules=[rule])
        policy = await scenario.create("policies", "slots", models=["*"])
        key = await scenario.relay_key("slots", policy, rateLimitIds=[rate_limit])
        limited = held.called_with(key)
        await limited.until_every_worker_answers(200)
        body = {"model": MODEL, "stream": True, "messages": []}
        for _ in range(CANCELS // WAVE):
            calls = [await limited.connect() for _ in range(WAVE)]
            for call in calls:
                await call.ask("POST", "/v1/chat/completions", key, body)
            # Some have begun, some have not: all leave.
            await calls[0].reader.readuntil(b"\r\n")
            for call in calls:
                call.writer.transport.abort()
        await until_slots(limited, WAVE)
