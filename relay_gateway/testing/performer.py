"""Plays the steps of a script on one connection."""

from __future__ import annotations

import asyncio
import os
import socket
import struct

from relay_gateway.testing.ledger import SeenConnection
from relay_gateway.testing.script import Close, HalfClose, Hang, Reset, Script, Send, Wait, WaitFor

LINGER_ZERO = struct.pack("ii", 1, 0)


class Performer:
    """The sending side of one accepted connection."""

    def __init__(self, writer: asyncio.StreamWriter, connection: SeenConnection) -> None:
        self._writer = writer
        self._connection = connection
        self.closed = False
        # With no buffer of our own, a drained write is one that the kernel took.
        writer.transport.set_write_buffer_limits(high=0)

    async def perform(self, script: Script) -> None:
        """Plays the steps in order; those after ``Close`` or ``Reset`` are not reached.

        Raises ``OSError`` when the peer is gone.
        """
        for step in script:
            await self._step(step)
            if self.closed:
                return

    async def _step(self, step: object) -> None:
        match step:
            case Send(data):
                await self._send(data)
            case Wait(seconds):
                await asyncio.sleep(seconds)
            case WaitFor(event):
                await event.wait()
            case Hang():
                await asyncio.Event().wait()
            case HalfClose():
                self._writer.write_eof()
            case Close():
                self.closed = True
                self._writer.close()
            case Reset():
                self.closed = True
                reset(self._writer.transport)
            case _:
                raise TypeError(f"{step!r} is not a step of a script")

    async def _send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()
        self._connection.sent += len(data)


def reset(transport: asyncio.WriteTransport) -> None:
    """Closes the connection by RST instead of FIN; what is still under way may be lost."""
    sock = transport.get_extra_info("socket")
    if sock is not None and sock.fileno() >= 0:
        # The option belongs to the connection, so a duplicate sets it under any event loop.
        with socket.socket(fileno=os.dup(sock.fileno())) as duplicate:
            duplicate.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_ZERO)
    transport.abort()
