"""What a pooler in transaction mode does to a listener: notifications do not come through."""

from __future__ import annotations

import asyncio
from typing import Self

NOTIFICATION = b"A"
"""Type of the message that tells a session of a notification (NotificationResponse)."""
TLS_REQUEST = bytes.fromhex("0000000804d2162f")
"""What asks for TLS before a session; here it is refused."""


class TransactionPooler:
    """Forwards PostgreSQL connections on loopback and swallows every notification.

    Between its transactions a session of such a pooler has no server connection that it could hear
    on. Use as an async context manager.
    """

    def __init__(self, port: int) -> None:
        self.port = 0
        self.swallowed = 0
        """How many notifications did not come through."""
        self._server_port = port
        self._server: asyncio.Server | None = None
        self._links: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._server is not None:
            self._server.close()
        for link in self._links:
            link.cancel()
        await asyncio.gather(*self._links, return_exceptions=True)

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = asyncio.get_running_loop().create_task(self._link(reader, writer))
        self._links.add(link)
        link.add_done_callback(self._links.discard)

    async def _link(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, out = await asyncio.open_connection("127.0.0.1", self._server_port)
        first = await reader.readexactly(8)
        if first == TLS_REQUEST:
            writer.write(b"N")
        else:
            out.write(first)
        sending = asyncio.create_task(_copy(reader, out))
        try:
            await self._messages(there, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            out.close()
            writer.close()

    async def _messages(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            kind = await reader.readexactly(1)
            length = await reader.readexactly(4)
            rest = await reader.readexactly(int.from_bytes(length, "big") - 4)
            if kind == NOTIFICATION:
                self.swallowed += 1
                continue
            writer.write(kind + length + rest)
            await writer.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
