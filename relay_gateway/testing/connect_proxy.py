"""An egress proxy on a loopback port: opens tunnels, to whom it lets in."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

ESTABLISHED = b"HTTP/1.1 200 Established\r\n\r\n"
UNKNOWN = b'HTTP/1.1 407 Who are you\r\nProxy-Authenticate: Basic realm="egress"\r\n\r\n'


class ConnectProxy:
    """Answers each ``CONNECT`` with ``answer``; every tunnel leads to the upstream of the test.

    With a ``login`` (``user:password``) anybody without it is answered 407. ``asked`` has the heads
    that arrived, ``opened`` counts the tunnels.
    """

    def __init__(self, answer: bytes = ESTABLISHED, *, login: str | None = None) -> None:
        self.asked: list[bytes] = []
        self.opened = 0
        self.login = login
        self.port = 0
        self._answer = answer
        self._upstream_port = 0

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.port}"

    @asynccontextmanager
    async def running(self, upstream_port: int) -> AsyncIterator[None]:
        """Listens, and leads to ``upstream_port``."""
        self._upstream_port = upstream_port
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.asked.append(head)
        answer = self._answer if self._lets_in(head) else UNKNOWN
        writer.write(answer)
        if answer.startswith(b"HTTP/1.1 200"):
            self.opened += 1
            to = await asyncio.open_connection("127.0.0.1", self._upstream_port)
            await asyncio.gather(_copy(reader, to[1]), _copy(to[0], writer))
        writer.close()

    def _lets_in(self, head: bytes) -> bool:
        if self.login is None:
            return True
        _, found, after = head.partition(b"\r\nProxy-Authorization: Basic ")
        given = after.partition(b"\r\n")[0]
        return bool(found) and base64.b64decode(given) == self.login.encode()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    writer.close()
