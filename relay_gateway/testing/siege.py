"""Many slow callers of three kinds in a process of their own, for as long as they are wanted.

``python -m relay_gateway.testing.siege`` reads :class:`Orders` as a line of JSON, says ``open``
when all connections are, ends with its standard input and then prints :class:`Reaping` as JSON.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec
import uvloop

from relay_gateway.testing.slow_callers import Reaped, dribble, stall

RAMP_SECONDS: Final = 10.0
_OPEN_SECONDS: Final = 30.0
_END_SECONDS: Final = 30.0
_DESCRIPTORS: Final = Path("/proc/self/fd")
_UNEVEN: Final = 0.5
"""Callers of different machines do not keep step; those of one process would, more and more: what
it sends late it sends together, and again a second later, and so on."""
IDLE: Final = ("chrt", "--idle", "0")
"""Put before its command: attackers bring processors of their own, here they get what honest
callers leave of theirs, and are interrupted as soon as one of these has something to do."""


class Orders(msgspec.Struct, frozen=True):
    """``each`` slow heads, bodies and readers; ``head`` and ``body`` are beginnings of requests,
    ``stream`` is a whole one. One that is endured for longer than ``most`` seconds is an error."""

    port: int
    each: int
    head: bytes
    body: bytes
    stream: bytes
    most: float = 130.0


class Reaping(msgspec.Struct):
    """How many of each kind were cut off, and how long the longest was endured, in seconds."""

    heads: int = 0
    bodies: int = 0
    readers: int = 0
    longest_head: float = 0.0
    longest_body: float = 0.0
    longest_reader: float = 0.0


class Siege:
    """The process; entered when all its connections are open. ``reaping`` is known at its end."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self.reaping = Reaping()
        self._process: asyncio.subprocess.Process

    async def __aenter__(self) -> Self:
        pipe = asyncio.subprocess.PIPE
        self._process = await asyncio.create_subprocess_exec(
            *IDLE, sys.executable, "-m", __name__, stdin=pipe, stdout=pipe
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(msgspec.json.encode(self._orders) + b"\n")
        async with asyncio.timeout(_OPEN_SECONDS + RAMP_SECONDS):
            assert await self._process.stdout.readline() == b"open\n", "the siege did not begin"
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        async with asyncio.timeout(_END_SECONDS):
            said, _ = await self._process.communicate(b"")  # closes its input
        if error is None:
            assert self._process.returncode == 0, "a slow caller was endured for too long"
            self.reaping = msgspec.json.decode(said, type=Reaping)


class _Attack:
    """What the process does: each slot attacks anew as soon as it was cut off."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self.reaping = Reaping()

    async def run(self) -> None:
        """Attacks until the standard input ends."""
        loop = asyncio.get_running_loop()
        over = loop.run_in_executor(None, sys.stdin.read)
        async with asyncio.TaskGroup() as group:
            slots = []
            for number in range(self._orders.each):
                wait = RAMP_SECONDS * number / self._orders.each
                slots += [
                    group.create_task(self._hold(wait, slot))
                    for slot in (self._slow_head, self._slow_body, self._slow_reader)
                ]
            await self._until_open()
            _say(b"open")
            await over
            for one in slots:
                one.cancel()

    async def _until_open(self) -> None:
        async with asyncio.timeout(_OPEN_SECONDS):
            # Nothing tells of a connection that is open but the system.
            while sum(1 for _ in _DESCRIPTORS.iterdir()) < 2.9 * self._orders.each:  # noqa: ASYNC110
                await asyncio.sleep(0.1)

    async def _hold(self, wait: float, slot: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(wait)
        while True:
            await slot()

    async def _slow_head(self) -> None:
        done = await self._dribble(self._orders.head)
        self.reaping.heads += 1
        self.reaping.longest_head = max(self.reaping.longest_head, done.seconds)

    async def _slow_body(self) -> None:
        done = await self._dribble(self._orders.body)
        self.reaping.bodies += 1
        self.reaping.longest_body = max(self.reaping.longest_body, done.seconds)

    async def _slow_reader(self) -> None:
        orders = self._orders
        done = await stall(orders.port, orders.stream, most=orders.most, every=1.0)
        self.reaping.readers += 1
        self.reaping.longest_reader = max(self.reaping.longest_reader, done.seconds)

    async def _dribble(self, begin: bytes) -> Reaped:
        orders = self._orders
        return await dribble(orders.port, begin, b"a", every=1.0, most=orders.most, uneven=_UNEVEN)


def _say(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.flush()


def _main() -> None:
    attack = _Attack(msgspec.json.decode(sys.stdin.readline(), type=Orders))
    uvloop.run(attack.run())
    _say(msgspec.json.encode(attack.reaping))


if __name__ == "__main__":
    _main()
