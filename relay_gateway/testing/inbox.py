"""The receiving side of a test server's connection: bytes in order, and when the peer went away."""

from __future__ import annotations

import asyncio

from relay_gateway.testing.ledger import MalformedRequestError, SeenConnection

READ_SIZE = 65536
MAX_HEAD = 1 << 20


class PeerGoneError(Exception):
    """The peer closed before what was waited for had arrived."""


class Inbox:
    """Reads all the time, so that a peer that goes away is noticed while a script runs."""

    def __init__(self, reader: asyncio.StreamReader, connection: SeenConnection) -> None:
        self._reader = reader
        self._connection = connection
        self._buffer = bytearray()
        self._arrived = asyncio.Event()
        self.ended = asyncio.Event()

    async def pump(self) -> None:
        """Receives until the peer closes; then :attr:`ended` is set."""
        try:
            while data := await self._reader.read(READ_SIZE):
                self._connection.received += data
                self._buffer += data
                self._arrived.set()
        except OSError:
            self._connection.peer_reset = True
        self._connection.peer_closed_at = asyncio.get_running_loop().time()
        self.ended.set()
        self._arrived.set()

    async def take(self, size: int) -> bytes:
        """The next ``size`` bytes. Raises :class:`PeerGoneError`."""
        while len(self._buffer) < size:
            await self._more()
        return self._cut(size)

    async def take_until(self, mark: bytes) -> bytes:
        """Everything up to and including ``mark``.

        Raises :class:`PeerGoneError`, or :class:`MalformedRequestError` beyond 1 MiB without it.
        """
        while (found := self._buffer.find(mark)) < 0:
            if len(self._buffer) > MAX_HEAD:
                raise MalformedRequestError(f"{MAX_HEAD} bytes without {mark!r}")
            await self._more()
        return self._cut(found + len(mark))

    async def _more(self) -> None:
        if self.ended.is_set():
            raise PeerGoneError
        self._arrived.clear()
        await self._arrived.wait()

    def _cut(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken
