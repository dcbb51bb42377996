"""Many callers at once that send changed requests to one port, each followed by one it can know."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections import Counter
from collections.abc import Iterator

from relay_gateway.testing.mutation import Mutator

SILENCE_SECONDS = 0.25
"""After this long without a byte a caller says that nothing more comes from it."""
HANG_SECONDS = 5.0

_STATUS = re.compile(rb"(?:^|(?<=\n))HTTP/1\.[01] (\d{3}) ")
_MARK = re.compile(rb"/last/(\d{8})")


class Crowd:
    """Sends ``count`` requests of a :class:`Mutator`; ``statuses`` counts what came back."""

    def __init__(self, port: int, *, seed: int, count: int, callers: int = 64) -> None:
        self.statuses: Counter[int] = Counter()
        self.answered = 0
        """How many of the requests that followed a changed one were answered."""
        self._port = port
        self._mutator = Mutator(seed)
        self._numbers: Iterator[int] = itertools.islice(itertools.count(), count)
        self._callers = callers

    async def run(self) -> None:
        """Sends all.

        Raises ``AssertionError`` for an answer to somebody else's request, a 500, and a connection
        that is neither answered nor closed after :data:`HANG_SECONDS`.
        """
        async with asyncio.TaskGroup() as group:
            for _ in range(self._callers):
                group.create_task(self._call_on())

    async def _call_on(self) -> None:
        for number in self._numbers:
            mark = b"GET /last/%08d HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n" % number
            data = self._mutator.request(mark)
            try:
                async with asyncio.timeout(HANG_SECONDS):
                    answer = await self._exchange(data)
            except TimeoutError:
                raise AssertionError(f"no end after {HANG_SECONDS} s: {data!r}") from None
            self._judge(number, data, answer)

    async def _exchange(self, data: bytes) -> bytes:
        received = b""
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except ConnectionResetError:
            return received
        try:
            for piece in self._mutator.pieces(data):
                if writer.transport.is_closing():
                    break
                writer.write(piece)
                await asyncio.sleep(0)
            while piece := await _read(reader, writer):
                received += piece
        except ConnectionError:
            pass  # refused before its end was sent; what came until then counts
        finally:
            writer.transport.abort()
        return received

    def _judge(self, number: int, data: bytes, answer: bytes) -> None:
        statuses = [int(status) for status in _STATUS.findall(answer)]
        self.statuses.update(statuses)
        marks = {int(mark) for mark in _MARK.findall(answer)}
        assert marks <= {number}, f"{data!r} was answered with another's {answer!r}"
        assert 500 not in statuses, f"{data!r} made {answer!r}"
        self.answered += bool(marks)


async def _read(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    try:
        async with asyncio.timeout(SILENCE_SECONDS):
            return await reader.read(65_536)
    except TimeoutError:
        if not writer.transport.is_closing():
            writer.write_eof()
        return await reader.read(65_536)
