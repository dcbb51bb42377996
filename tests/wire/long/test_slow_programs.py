"""A thousand slow callers of each kind against the default limits: our own, and slowhttptest's.

The gateway has one core and everybody else another. Honest traffic comes at a steady rate, from the
load generator of the benchmarks by way of their upstream: programs in Python would be slowed down
by the attackers that they share a core with, and it would look as if the gateway were. It is
measured without and with the attack in turn, and only the ratio of the two means anything. What the
neighbours of a virtual machine do to it comes in bursts: so the 99th percentile is taken of windows
of a few seconds, of which half are better than what is reported.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pytest

from benchmarks.programs import Load, LoadResult, Upstream, compile_program
from relay_gateway.testing.big_world import BigWorld, big_world
from relay_gateway.testing.cores import apart
from relay_gateway.testing.memory import MIB
from relay_gateway.testing.siege import IDLE, Orders, Reaping, Siege

EACH = 1000
ROUNDS = 3
RATE = 200
CALLERS = 20
ANSWER_BYTES = 1024
ALONE_SECONDS = 20.0
SETTLING_SECONDS = 10.0
"""Slow readers are quick ones until the buffers between are full; that is another matter."""
SIEGE_SECONDS = 45.0
"""As long as the first readers hold out. Heads and bodies are cut off and come again meanwhile."""
REAPING_SECONDS = 15.0
"""Until they have been reset, too, after their minute; they come again all at once then, and are
quick ones again, so nothing is measured."""
PROGRAM_SECONDS = 30
WARM_UP_SECONDS = 0.2
WINDOW_SECONDS = 2.5
"""The gateway looks twice for those who are due in each."""
STREAM = b'{"model":"m","stream":true}'

Attack = Callable[[], AbstractAsyncContextManager[None]]

_log = logging.getLogger(__name__)


class Latency(NamedTuple):
    """What half of the honest requests stay below, and what 99 % of each window do, in ms."""

    half: float
    most: list[float]

    def __str__(self) -> str:
        return f"{self.half:.2f} and {median(self.most):.2f}"


class World(NamedTuple):
    """The gateway, and the programs of honest callers."""

    gateway: BigWorld
    load: Path
    request: Path

    async def honest(self, seconds: float) -> Latency:
        """Asks at :data:`RATE`; none may fail."""
        windows = round(seconds / (WARM_UP_SECONDS + WINDOW_SECONDS))
        found = [(await asyncio.to_thread(self._window)).latency_us for _ in range(windows)]
        return Latency(median(one.p50 for one in found) / 1000, [one.p99 / 1000 for one in found])

    def _window(self) -> LoadResult:
        options = (
            f"connections={CALLERS}",
            f"rate={RATE}",
            f"warmup={WARM_UP_SECONDS}",
            f"seconds={WINDOW_SECONDS}",
            f"bytes={ANSWER_BYTES}",
        )
        with Load(self.load, self.gateway.port, self.request, options) as load:
            result = load.finish()
        assert result.answers >= RATE * WINDOW_SECONDS * 0.9
        return result


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    load, upstream = (compile_program(name, tmp_path) for name in ("load", "upstream"))
    with Upstream(upstream, tmp_path / "upstream.log") as quick:
        async with big_world(
            tmp_path, adapter="openai", stream_bytes=4 * MIB, frugal=True
        ) as gateway:
            request = tmp_path / "request"
            request.write_bytes(await honest_request(gateway, quick.port))
            with apart(gateway.pid):
                yield World(gateway, load, request)


async def honest_request(gateway: BigWorld, port: int) -> bytes:
    """A request to a model whose upstream answers at once."""
    scenario, body = gateway.scenario, b'{"model":"quick"}'
    provider = await scenario.create("providers", "Quick")
    url = f"http://127.0.0.1:{port}/json{ANSWER_BYTES}/v1"
    host = await scenario.create("hosts", "Quick", baseUrl=url, adapter="openai", noAuth=True)
    bindings = [{"hostId": host}]
    await scenario.create("models", "Quick", name="quick", providerId=provider, bindings=bindings)
    policy = await scenario.create("policies", "Quick", models=["quick"])
    relay_key = await scenario.relay_key("honest", policy)
    head = (
        "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nAuthorization: Bearer {relay_key}\r\n\r\n"
    )
    return head.encode() + body


async def compare(world: World, attack: Attack, seconds: float) -> float:
    """The median of honest p99 beside the attack, as a multiple of that without it, over the
    windows of all rounds."""
    without: list[float] = []
    beside: list[float] = []
    for number in range(1, ROUNDS + 1):
        alone = await world.honest(ALONE_SECONDS)
        async with attack():
            settling = await world.honest(SETTLING_SECONDS)
            under = await world.honest(seconds)
        without += alone.most
        beside += under.most
        _log.info(
            "round %d: honest p50 and p99 in ms: %s alone, %s while attackers come, %s beside them",
            number, alone, settling, under,
        )  # fmt: skip
    _log.info("all rounds: honest p99 %.2f ms alone, %.2f beside", median(without), median(beside))
    return median(beside) / median(without)


async def test_r19_three_thousand_slow_callers_hurt_nobody(world: World) -> None:
    reapings: list[Reaping] = []
    gateway = world.gateway

    @asynccontextmanager
    async def besieged() -> AsyncIterator[None]:
        head = b"GET / HTTP/1.1\r\nHost: a\r\nX: "
        async with Siege(
            Orders(gateway.port, EACH, head, gateway.head(100_000), gateway.request(STREAM))
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


async def test_r19_slowhttptest_hurts_nobody(world: World) -> None:
    program = shutil.which("slowhttptest")
    assert program is not None, "slowhttptest is not installed; on Debian: apt-get install it"
    url = f"http://127.0.0.1:{world.gateway.port}/v1/chat/completions"
    common = ["-c", str(EACH), "-r", "200", "-u", url, "-l", str(PROGRAM_SECONDS + 20), "-p", "3"]
    kinds = (["-H", "-i", "5"], ["-B", "-i", "5", "-s", "8192"], ["-X", "-k", "3"])

    @asynccontextmanager
    async def attacked() -> AsyncIterator[None]:
        programs = [
            await asyncio.create_subprocess_exec(
                *IDLE, program, *kind, *common, stdout=asyncio.subprocess.DEVNULL
            )
            for kind in kinds
        ]
        yield
        await asyncio.gather(*(one.wait() for one in programs))

    ratio = await compare(world, attacked, PROGRAM_SECONDS)
    _log.info("honest p99 beside it: %.2f times that without", ratio)
    assert ratio < 2
