"""Honest callers at a steady rate, whatever happens to their requests: an open loop."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from dataclasses import dataclass

from relay_gateway.testing.raw_caller import RawCaller

_REQUEST_ID = re.compile(rb"\r\nx-relay-request-id: (\S+)\r\n", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Heard:
    """An answer: the id of its request, and when the one was sent and the other complete, in
    seconds of one monotonic clock."""

    request_id: str
    asked: float
    answered: float

    @property
    def seconds(self) -> float:
        """How long it took."""
        return self.answered - self.asked


class HonestLoad:
    """Asks ``rate`` times per second, over kept connections; a request that finds all of them busy
    opens one more, so that slow answers do not make the next request wait."""

    def __init__(self, port: int, request: bytes, *, rate: float) -> None:
        self._port = port
        self._request = request
        self._rate = rate
        self._idle: deque[RawCaller] = deque()
        """In turn, so that none is idle for so long that it is closed."""

    async def run(self, seconds: float) -> list[Heard]:
        """Every answer, in the order in which it was asked for.

        Raises ``AssertionError``, in a group, for one that is no success.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        try:
            async with asyncio.TaskGroup() as group:
                asked = []
                for number in range(int(seconds * self._rate)):
                    await asyncio.sleep(began + number / self._rate - loop.time())
                    asked.append(group.create_task(self._ask()))
        finally:
            for caller in self._idle:
                caller.writer.close()
            self._idle.clear()
        return [one.result() for one in asked]

    async def _ask(self) -> Heard:
        # The loop's own clock only knows milliseconds.
        asked = time.perf_counter()
        caller = self._idle.popleft() if self._idle else await RawCaller(self._port).__aenter__()
        try:
            answer = await caller.ask(self._request)
            answered = time.perf_counter()
            assert (answer.status, answer.complete) == (200, True), answer
        except BaseException:
            caller.writer.close()
            raise
        self._idle.append(caller)
        found = _REQUEST_ID.search(answer.head)
        assert found is not None, answer
        return Heard(found[1].decode(), asked, answered)
