"""Honest callers at a steady rate, whatever happens to their requests: an open loop."""

from __future__ import annotations

import asyncio
import time

from relay_gateway.testing.raw_caller import RawCaller


class HonestLoad:
    """Asks ``rate`` times per second, over kept connections; a request that finds all of them busy
    opens one more, so that slow answers do not make the next request wait."""

    def __init__(self, port: int, request: bytes, *, rate: float) -> None:
        self._port = port
        self._request = request
        self._rate = rate
        self._idle: list[RawCaller] = []

    async def run(self, seconds: float) -> list[float]:
        """The seconds that each answer took.

        Raises ``AssertionError``, in a group, for one that is no success.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        async with asyncio.TaskGroup() as group:
            asked = []
            for number in range(int(seconds * self._rate)):
                await asyncio.sleep(began + number / self._rate - loop.time())
                asked.append(group.create_task(self._ask()))
        for caller in self._idle:
            await caller.__aexit__(None, None, None)
        self._idle.clear()
        return [one.result() for one in asked]

    async def _ask(self) -> float:
        # The loop's own clock only knows milliseconds.
        began = time.perf_counter()
        caller = self._idle.pop() if self._idle else await RawCaller(self._port).__aenter__()
        answer = await caller.ask(self._request)
        seconds = time.perf_counter() - began
        assert (answer.status, answer.complete) == (200, True), answer
        self._idle.append(caller)
        return seconds
