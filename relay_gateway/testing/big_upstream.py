"""An upstream for bodies of any size: it keeps none of them, and sends streams without end."""

from __future__ import annotations

import asyncio
import re
import socket
import zlib
from typing import Final, Self, cast

from relay_gateway.testing.script import chunk

_LENGTH: Final = re.compile(rb"\r\nContent-Length: (\d+)\r\n", re.IGNORECASE)
_STREAM_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
)
_EVENTS: Final = chunk(b"data: %b\n\n" % (b"x" * 1_016) * 64)
EVENT_BYTES: Final = 65_536
_LOOK_BYTES: Final = 200
_BACKLOG: Final = 4096
_FRUGAL_BYTES: Final = 32 * 1024


class BigUpstream:
    """Answers a body with its size and checksum, and one that begins with ``"stream":true`` with
    ``stream_bytes`` of events; a context manager.

    With ``frugal`` the kernel keeps little of what it sends: thousands of streams that nobody reads
    would otherwise fill the memory that it has for all connections of the machine.
    """

    def __init__(self, stream_bytes: int = 0, *, frugal: bool = False) -> None:
        self.events = stream_bytes // EVENT_BYTES
        self._frugal = frugal
        self.sent = 0
        """How many bytes of events were sent so far, on all connections."""
        self.url = ""
        self._server: asyncio.Server | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        listener = socket.create_server(("127.0.0.1", 0), backlog=_BACKLOG)
        if self._frugal:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _FRUGAL_BYTES)
        self._server = await loop.create_server(
            lambda: _Connection(self), sock=listener, backlog=_BACKLOG
        )
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._server is not None:
            self._server.close()


class _Connection(asyncio.Protocol):
    """One connection of a :class:`BigUpstream`."""

    def __init__(self, upstream: BigUpstream) -> None:
        self._upstream = upstream
        self._head = b""
        self._begin()

    def _begin(self) -> None:
        self._left: int | None = None
        self._size = self._checksum = self._events = 0
        self._first = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._paused = False

    def data_received(self, data: bytes) -> None:
        if self._left is None:
            head, end, data = (self._head + data).partition(b"\r\n\r\n")
            if not end:
                self._head = head
                return
            self._head = b""
            found = _LENGTH.search(head + end)
            assert found is not None, "a request without a length"
            self._left = int(found[1])
        self._first = self._first or data[:_LOOK_BYTES]
        self._size += len(data)
        self._checksum = zlib.crc32(data, self._checksum)
        self._left -= len(data)
        if self._left == 0:
            self._answer()

    def _answer(self) -> None:
        if b'"stream":true' in self._first:
            self._transport.write(_STREAM_HEAD)
            self._events = self._upstream.events
            self._send_events()
            return
        said = b"%d %d" % (self._size, self._checksum)
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n"
        self._transport.write(head % len(said) + said)
        self._begin()

    def _send_events(self) -> None:
        while self._events and not self._paused and not self._transport.is_closing():
            self._events -= 1
            self._upstream.sent += EVENT_BYTES
            self._transport.write(_EVENTS)
        if not self._events:
            self._transport.write(chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
            self._begin()

    def pause_writing(self) -> None:
        self._paused = True

    def resume_writing(self) -> None:
        self._paused = False
        if self._events:
            self._send_events()
