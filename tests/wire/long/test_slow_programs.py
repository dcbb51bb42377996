"""A thousand slow callers of each kind against the default limits: our own, and slowhttptest's.

The gateway has one core and everybody else another. Honest traffic comes at a steady rate; it is
measured without and with the attack in turn, and only the ratio of the two means anything. What the
neighbours of a virtual machine do to it comes in bursts: so the 99th percentile is taken of windows
of a few seconds, of which half are better than what is reported, and no garbage is collected in
the process that measures.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from statistics import median

import pytest

from relay_gateway.testing.big_world import BigWorld, big_world
from relay_gateway.testing.cores import apart
from relay_gateway.testing.honest_load import HonestLoad
from relay_gateway.testing.memory import MIB
from relay_gateway.testing.siege import Orders, Reaping, Siege
from relay_gateway.testing.slow_callers import percentile

EACH = 1000
ROUNDS = 3
RATE = 200.0
ALONE_SECONDS = 20.0
SETTLING_SECONDS = 10.0
"""Slow readers are quick ones until the buffers between are full; that is another matter."""
SIEGE_SECONDS = 45.0
"""As long as the first readers hold out. Heads and bodies are cut off and come again meanwhile."""
REAPING_SECONDS = 15.0
"""Until they have been reset, too, after their minute; they come again all at once then, and are
quick ones again, so nothing is measured."""
PROGRAM_SECONDS = 30
WINDOW = 500
"""Requests of two and a half seconds: the gateway's own sweep comes twice in each."""
REQUEST = b'{"model":"m"}'
STREAM = b'{"model":"m","stream":true}'

Attack = Callable[[BigWorld], AbstractAsyncContextManager[None]]

_log = logging.getLogger(__name__)


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[BigWorld]:
    async with big_world(tmp_path, adapter="openai", stream_bytes=4 * MIB, frugal=True) as world:
        with apart(world.pid):
            yield world


async def honest(world: BigWorld, seconds: float) -> tuple[float, list[float]]:
    """The latency that half of honest requests stay below, and what 99 % of each
    :data:`WINDOW` do, in ms; none may fail."""
    load = HonestLoad(world.port, world.request(REQUEST), rate=RATE)
    with without_collections():
        latencies = [one.seconds * 1000 for one in await load.run(seconds)]
    windows = [latencies[at : at + WINDOW] for at in range(0, len(latencies), WINDOW)]
    return percentile(latencies, 50), [percentile(window, 99) for window in windows]


@contextmanager
def without_collections() -> Iterator[None]:
    """A full collection of this process, with all that a test runner holds, takes tens of
    milliseconds, and honest callers and the upstream live in it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def compare(world: BigWorld, attack: Attack, seconds: float) -> float:
    """The median of honest p99 beside the attack, as a multiple of that without it, over the
    windows of all rounds."""
    without: list[float] = []
    beside: list[float] = []
    for number in range(1, ROUNDS + 1):
        alone = await honest(world, ALONE_SECONDS)
        async with attack(world):
            settling = await honest(world, SETTLING_SECONDS)
            under = await honest(world, seconds)
        without += alone[1]
        beside += under[1]
        _log.info(
            "round %d: honest p50 and p99 in ms: %.2f and %.2f alone, %.2f and %.2f while "
            "attackers come, %.2f and %.2f beside them",
            number, *(f(one) for one in (alone, settling, under) for f in (_half, _most)),
        )  # fmt: skip
    _log.info("all rounds: honest p99 %.2f ms alone, %.2f beside", median(without), median(beside))
    return median(beside) / median(without)


def _half(measured: tuple[float, list[float]]) -> float:
    return measured[0]


def _most(measured: tuple[float, list[float]]) -> float:
    return median(measured[1])


async def test_r19_three_thousand_slow_callers_hurt_nobody(world: BigWorld) -> None:
    reapings: list[Reaping] = []

    @asynccontextmanager
    async def besieged(world: BigWorld) -> AsyncIterator[None]:
        head = b"GET / HTTP/1.1\r\nHost: a\r\nX: "
        async with Siege(
            Orders(world.port, EACH, head, world.head(100_000), world.request(STREAM))
        ) as siege:
            yield
            await asyncio.sleep(REAPING_SECONDS)
        reapings.append(siege.reaping)

    ratio = await compare(world, besieged, SIEGE_SECONDS)
    _log.info("honest p99 beside them: %.2f times that without", ratio)
    for reaping in reapings:
        _log.info("%s", reaping)
        assert min(reaping.heads, reaping.bodies, reaping.readers) >= EACH
        assert reaping.longest_head <= 15
    assert ratio < 2


async def test_r19_slowhttptest_hurts_nobody(world: BigWorld) -> None:
    program = shutil.which("slowhttptest")
    assert program is not None, "slowhttptest is not installed; on Debian: apt-get install it"
    url = f"http://127.0.0.1:{world.port}/v1/chat/completions"
    common = ["-c", str(EACH), "-r", "200", "-u", url, "-l", str(PROGRAM_SECONDS + 20), "-p", "3"]
    kinds = (["-H", "-i", "5"], ["-B", "-i", "5", "-s", "8192"], ["-X", "-k", "3"])

    @asynccontextmanager
    async def attacked(_world: BigWorld) -> AsyncIterator[None]:
        # Attackers bring processors of their own; here they get what the others leave over.
        programs = [
            await asyncio.create_subprocess_exec(
                "nice", "-n", "19", program, *kind, *common, stdout=asyncio.subprocess.DEVNULL
            )
            for kind in kinds
        ]
        yield
        await asyncio.gather(*(one.wait() for one in programs))

    ratio = await compare(world, attacked, PROGRAM_SECONDS)
    _log.info("honest p99 beside it: %.2f times that without", ratio)
    assert ratio < 2
