"""Gateways that are killed in the middle of their work: nothing answered is missing afterwards."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path

from relay_gateway.testing.held import Held
from relay_gateway.testing.kill_loop import run_apart

Serving = Callable[..., Awaitable[Held]]
KILLS = 50


async def test_f24_r2_r3_killed_at_random_moments_nothing_is_lost_and_nothing_invented(
    tmp_path: Path,
) -> None:
    verdict = await run_apart(tmp_path, KILLS, seed=7)
    assert verdict.answered > 1000
    assert verdict.interrupted > KILLS
    assert (verdict.lost, verdict.wrong, verdict.invented) == ((), (), ())


async def test_f24_after_kill_9_streams_in_flight_are_interrupted_and_answers_kept(
    serving: Serving,
) -> None:
    held = await serving(1)
    await fill(held)
    await held.gateway.kill()
    await held.gateway.start()
    await judge(held)


async def test_f24_what_killed_workers_have_left_is_taken_over_by_those_that_follow(
    serving: Serving,
) -> None:
    held = await serving(2)
    await fill(held)
    for worker in held.gateway.children()[:2]:
        os.kill(worker, signal.SIGKILL)
    await judge(held)


async def fill(held: Held) -> None:
    """Twenty answers that are complete, ten streams that are not."""
    held.upstream.finish.set()
    answered = await asyncio.gather(*(held.ask(stream=True) for _ in range(20)))
    await asyncio.gather(*(call.whole_stream() for call in answered))
    held.upstream.finish.clear()
    await held.streams(10)


async def judge(held: Held) -> None:
    async with held.gateway.control() as admin, asyncio.timeout(10):
        found: list[object] = []
        while len(found) < 10:
            answer = await admin.get("/logs?limit=100&errorCode=interrupted")
            found = answer.json()["items"]
    assert await held.gateway.stop() == 0
    kept = await held.records()
    ends = Counter((one["outcome"], one["errorCode"], one["status"]) for one in kept)
    assert ends["ok", None, 200] >= 20, "the answers, and lists of models"
    assert ends["aborted", "interrupted", 0] == 10
    interrupted = [one for one in kept if one["errorCode"] == "interrupted"]
    assert all(one["hostId"] and one["relayKeyId"] and one["modelId"] for one in interrupted)
    assert len({one["requestId"] for one in kept}) == len(kept)
    assert not [path for path in (held.gateway.data_dir / "spool").iterdir() if path.is_dir()]
