"""A thousand slow callers of each kind against the default limits: our own, and slowhttptest's."""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Coroutine
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.testing.big_world import BigWorld, big_world
from relay_gateway.testing.memory import MIB
from relay_gateway.testing.slow_callers import Reaped, ask_honestly, dribble, percentile, stall

EACH = 1000
ABREAST = 4
BASELINE_SECONDS = 10.0
SLOWHTTPTEST_SECONDS = 40
REQUEST = b'{"model":"m"}'
STREAM = b'{"model":"m","stream":true}'

_log = logging.getLogger(__name__)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[BigWorld]:
    async with big_world(tmp_path, adapter="openai", stream_bytes=64 * MIB) as world:
        yield world


async def honest_p99(world: BigWorld, until: Coroutine[Any, Any, object]) -> float:
    """The latency that 99 % of honest requests stay below while ``until`` runs; none may fail."""
    done = asyncio.Event()
    request = world.request(REQUEST)
    honest = [
        asyncio.ensure_future(ask_honestly(world.port, request, done)) for _ in range(ABREAST)
    ]
    await until
    done.set()
    latencies = [seconds for one in await asyncio.gather(*honest) for seconds in one]
    return percentile(latencies, 99)


async def slow_callers(world: BigWorld) -> tuple[list[Reaped], list[Reaped], list[Reaped]]:
    """Slow heads, bodies and readers, each until it was cut off."""
    head = b"GET / HTTP/1.1\r\nHost: a\r\nX: "
    body, stream = world.head(100_000), world.request(STREAM)
    kinds: list[list[Coroutine[Any, Any, Reaped]]] = [
        [dribble(world.port, head, b"a", every=1, most=15) for _ in range(EACH)],
        [dribble(world.port, body, b"a", every=1, most=130) for _ in range(EACH)],
        [stall(world.port, stream, most=130) for _ in range(EACH)],
    ]
    heads, bodies, readers = await asyncio.gather(*(asyncio.gather(*callers) for callers in kinds))
    return heads, bodies, readers


async def test_r19_three_thousand_slow_callers_hurt_nobody(world: BigWorld) -> None:
    alone = await honest_p99(world, asyncio.sleep(BASELINE_SECONDS))
    reaped: list[tuple[list[Reaped], list[Reaped], list[Reaped]]] = []

    async def attack() -> None:
        reaped.append(await slow_callers(world))

    beside = await honest_p99(world, attack())
    for kind, callers in zip(("heads", "bodies", "readers"), reaped[0], strict=True):
        longest = max(one.seconds for one in callers)
        _log.info("%d slow %s: the last was cut off after %.1f s", EACH, kind, longest)
    _log.info("honest p99: %.2f ms alone, %.2f ms beside them", alone * 1000, beside * 1000)


async def test_r19_slowhttptest_hurts_nobody(world: BigWorld) -> None:
    program = shutil.which("slowhttptest")
    assert program is not None, "slowhttptest is not installed; on Debian: apt-get install it"
    alone = await honest_p99(world, asyncio.sleep(BASELINE_SECONDS))
    url = f"http://127.0.0.1:{world.port}/v1/chat/completions"
    common = ["-c", str(EACH), "-r", "200", "-u", url, "-l", str(SLOWHTTPTEST_SECONDS), "-p", "3"]
    kinds = (["-H", "-i", "5"], ["-B", "-i", "5", "-s", "8192"], ["-X", "-k", "3"])

    async def attack() -> None:
        # Attackers bring processors of their own; here they get what the others leave over.
        programs = [
            await asyncio.create_subprocess_exec(
                "nice", "-n", "19", program, *kind, *common, stdout=asyncio.subprocess.DEVNULL
            )
            for kind in kinds
        ]
        await asyncio.gather(*(one.wait() for one in programs))

    beside = await honest_p99(world, attack())
    _log.info("honest p99: %.2f ms alone, %.2f ms beside it", alone * 1000, beside * 1000)
    assert beside < max(2 * alone, 0.01)
