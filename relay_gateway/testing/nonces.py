"""Callers that leave at random moments, and an upstream whose answers say whose they are."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
from collections import Counter
from collections.abc import Iterator
from typing import Final, Self, cast

from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.performer import reset

EVENTS: Final = 6
_LONGEST_WAIT: Final = 0.004
_NONCE = re.compile(rb'"nonce":"(\d+)"')
_SAID = re.compile(rb"n(\d+)n")
_LENGTH = re.compile(rb"\r\nContent-Length: (\d+)\r\n", re.IGNORECASE)
_STREAM_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)


class NonceUpstream:
    """Answers each request with its nonce, whole or in six events, after random waits; once in a
    while it closes the connection after an answer without a word. A context manager."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self.seen: Counter[bytes] = Counter()
        """How often each nonce arrived."""
        self.url = ""
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _NonceConnection(self), "127.0.0.1", 0, backlog=2048
        )
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._server is not None:
            self._server.close()


class _NonceConnection(asyncio.Protocol):
    """One connection of a :class:`NonceUpstream`; takes one request at a time."""

    def __init__(self, upstream: NonceUpstream) -> None:
        self._upstream = upstream
        self._received = b""
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None
        self._current: Iterator[bytes] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        length = _LENGTH.search(head + end)
        if not end or length is None or len(body) < int(length[1]):
            return
        self._received = b""
        found = _NONCE.search(body)
        assert found is not None, f"a request without its nonce: {body!r}"
        self._upstream.seen[found[1]] += 1
        self._current = self._answer(found[1], streamed=b'"stream":true' in body)
        self._play(self._current)

    def _answer(self, nonce: bytes, *, streamed: bool) -> Iterator[bytes]:
        said = b"n%bn" % nonce
        if not streamed:
            head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n"
            yield head % len(said) + said
            return
        yield _STREAM_HEAD
        for _ in range(EVENTS):
            event = b"data: %b\n\n" % said
            yield b"%x\r\n%b\r\n" % (len(event), event)
        yield b"b\r\ndata: end\n\n\r\n0\r\n\r\n"

    def _play(self, answer: Iterator[bytes]) -> None:
        """Sends the next piece, and the one after it a little later."""
        piece = next(answer, None)
        pick = self._upstream.random
        if piece is None:
            if answer is self._current and pick.random() < 0.02:
                self._transport.close()
            return
        self._transport.write(piece)
        wait = pick.random() * _LONGEST_WAIT / EVENTS
        self._timer = asyncio.get_running_loop().call_later(wait, self._play, answer)


class Deserters:
    """Callers that ask a :class:`DataPath` with nonces and leave every other time, at a random
    moment; each goes on with a new connection.

    ``answered``, ``left`` and ``refused`` count how the requests ended for their callers.
    """

    def __init__(self, path: DataPath, *, seed: int, requests: int, callers: int = 32) -> None:
        self.answered = self.left = self.refused = 0
        self._path = path
        self._random = random.Random(seed)  # noqa: S311 - repeatable, not secret
        self._nonces = itertools.islice(itertools.count(1), requests)
        self._callers = callers

    async def run(self) -> None:
        """Sends all requests; raises ``AssertionError`` for an answer to another's."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._callers):
                group.create_task(self._call_on())

    async def _call_on(self) -> None:
        connection: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        for nonce in self._nonces:
            if connection is None:
                connection = await asyncio.open_connection("127.0.0.1", self._path.port)
            stays = self._random.random() < 0.5
            kept = await self._ask(nonce, *connection, patience=None if stays else self._patience())
            if not kept:
                self._leave(connection[1])
                connection = None
        if connection is not None:
            connection[1].close()

    def _patience(self) -> float:
        return self._random.random() * _LONGEST_WAIT * 1.5

    def _leave(self, writer: asyncio.StreamWriter) -> None:
        if self._random.random() < 0.5:
            reset(writer.transport)
        else:
            writer.close()

    async def _ask(
        self,
        nonce: int,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        patience: float | None,
    ) -> bool:
        """One request; whether its connection can carry the next one."""
        streamed = self._random.random() < 0.5
        writer.write(self._path.request("m", stream=streamed, extra=f',"nonce":"{nonce}"'))
        received = bytearray()
        try:
            async with asyncio.timeout(patience):
                status = await _read_answer(reader, received)
        except TimeoutError:
            self.left += 1
            self._check(nonce, received)
            return False
        self._check(nonce, received)
        self.answered += status == 200
        self.refused += status != 200
        return True

    def _check(self, nonce: int, received: bytearray) -> None:
        said = {int(found) for found in _SAID.findall(received)}
        assert said <= {nonce}, f"the caller of {nonce} was answered {said}: {bytes(received)!r}"


async def _read_answer(reader: asyncio.StreamReader, received: bytearray) -> int:
    """Reads one answer into ``received`` as it comes; its status."""
    head = await reader.readuntil(b"\r\n\r\n")
    received += head
    length = _LENGTH.search(head)
    if length is not None:
        received += await reader.readexactly(int(length[1]))
        return int(head[9:12])
    while True:
        line = await reader.readline()
        size = int(line, 16)
        received += await reader.readexactly(size + 2)
        if not size:
            return int(head[9:12])


async def desert(path: DataPath, *, seed: int, requests: int) -> Deserters:
    """Runs :class:`Deserters` to their end, and waits until nothing is held that was not before.

    Raises ``AssertionError`` for a mixed up answer, a leak, a request with two records, and an
    answer without one.
    """
    before = path.holdings()
    known = len(path.records)
    callers = Deserters(path, seed=seed, requests=requests)
    await callers.run()
    await path.until(before)
    records = path.records[known:]
    assert len({record.request_id for record in records}) == len(records), "recorded twice"
    # A caller that resets its connection at once may take its request back before it is read.
    assert callers.answered + callers.refused <= len(records) <= requests
    return callers
