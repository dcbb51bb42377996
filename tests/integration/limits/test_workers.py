"""Four workers count as one: over HTTP, under callers that all come at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.testing.held import MODEL, Call, Held, running_held

CALLERS = 200


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[Held]:
    async with running_held(tmp_path, "openai", {"RELAY_WORKERS": "4"}) as held:
        yield held


async def limited_key(held: Held, name: str, **rule: Any) -> str:
    """A relay key with this one rule, known to every worker."""
    scenario = held.scenario
    rate_limit = await scenario.create("rate-limits", name, rules=[rule])
    policy = await scenario.create("policies", name, models=["*"])
    key = await scenario.relay_key(name, policy, rateLimitIds=[rate_limit])
    known = Held(scenario, held.upstream, key, held.calls)
    await known.until_every_worker_answers(200)
    return key


async def begin(held: Held, key: str) -> tuple[int, Call]:
    """The status of a stream that is asked for on a connection of its own."""
    call = await held.connect()
    body = {"model": MODEL, "stream": True, "messages": []}
    await call.ask("POST", "/v1/chat/completions", key, body)
    head = await call.reader.readuntil(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), call


async def begin_all(held: Held, key: str) -> Counter[int]:
    """How so many streams begin that are asked for at once."""
    answers = await asyncio.gather(*(begin(held, key) for _ in range(CALLERS)))
    assert "cannot be asked" not in held.gateway.stderr
    return Counter(status for status, _ in answers)


async def test_r32_four_workers_are_never_above_a_limit(held: Held) -> None:
    requests = await limited_key(held, "rpm", meter="requests", amount=37, windowSeconds=86400)
    slots = await limited_key(held, "slots", meter="concurrency", amount=23)
    assert await begin_all(held, requests) == {200: 37, 429: CALLERS - 37}
    assert await begin_all(held, slots) == {200: 23, 429: CALLERS - 23}
    metrics = (await held.scenario.admin.get("/metrics")).text
    rule = 'rule="rpm (37 requests per 86400 s)"'
    assert f'relay_limit_decisions_total{{decision="allowed",{rule}}} 37.0' in metrics
    assert f'relay_limit_decisions_total{{decision="refused",{rule}}} 163.0' in metrics
    assert 'relay_state_store_up{process="worker-1",store="memory"} 1.0' in metrics


async def test_t38_the_slots_of_a_killed_worker_are_free_again(held: Held) -> None:
    key = await limited_key(held, "slots", meter="concurrency", amount=23)
    assert (await begin_all(held, key))[200] == 23
    for worker in held.gateway.children()[:4]:
        os.kill(worker, signal.SIGKILL)
    async with asyncio.timeout(20):
        taken = 0
        while taken < 23:
            try:
                status, _ = await begin(held, key)
            except (OSError, asyncio.IncompleteReadError):
                continue  # whoever accepted it was killed
            taken += status == 200
    assert (await begin(held, key))[0] == 429
