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

from relay_gateway.testing.held import Held, running_held

CALLERS = 200


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[Held]:
    async with running_held(tmp_path, "openai", {"RELAY_WORKERS": "4"}) as held:
        yield held


async def limited(held: Held, name: str, **rule: Any) -> Held:
    """With a relay key that has this one rule and is known to every worker."""
    scenario = held.scenario
    rate_limit = await scenario.create("rate-limits", name, rules=[rule])
    policy = await scenario.create("policies", name, models=["*"])
    key = await scenario.relay_key(name, policy, rateLimitIds=[rate_limit])
    known = held.called_with(key)
    await known.until_every_worker_answers(200)
    return known


async def begin_all(held: Held) -> Counter[int]:
    """How so many streams begin that are asked for at once."""
    answers = await asyncio.gather(*(held.begin() for _ in range(CALLERS)))
    assert "cannot be asked" not in held.gateway.stderr
    return Counter(status for status, _ in answers)


async def test_r32_four_workers_are_never_above_a_limit(held: Held) -> None:
    requests = await limited(held, "rpm", meter="requests", amount=37, windowSeconds=86400)
    slots = await limited(held, "slots", meter="concurrency", amount=23)
    assert await begin_all(requests) == {200: 37, 429: CALLERS - 37}
    assert await begin_all(slots) == {200: 23, 429: CALLERS - 23}
    metrics = (await held.scenario.admin.get("/metrics")).text
    rule = 'rule="rpm (37 requests per 86400 s)"'
    assert f'relay_limit_decisions_total{{decision="allowed",{rule}}} 37.0' in metrics
    assert f'relay_limit_decisions_total{{decision="refused",{rule}}} 163.0' in metrics
    assert 'relay_state_store_up{process="worker-1",store="memory"} 1.0' in metrics


async def test_t38_the_slots_of_a_killed_worker_are_free_again(held: Held) -> None:
    slots = await limited(held, "slots", meter="concurrency", amount=23)
    assert (await begin_all(slots))[200] == 23
    for worker in held.gateway.children()[:4]:
        os.kill(worker, signal.SIGKILL)
    async with asyncio.timeout(20):
        taken = 0
        while taken < 23:
            try:
                status, _ = await slots.begin()
            except (OSError, asyncio.IncompleteReadError):
                continue  # whoever accepted it was killed
            taken += status == 200
    assert (await slots.begin())[0] == 429
