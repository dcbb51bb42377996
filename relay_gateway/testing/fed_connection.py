"""One connection of the inference plane on a transport in memory, fed by hand without a socket."""

from __future__ import annotations

import asyncio
from typing import Any

from relay_gateway.http.connection import ServerConnection
from relay_gateway.http.limits import ServerLimits
from relay_gateway.http.plane import Handler, Plane
from relay_gateway.testing.inference_server import refuse_in_plain_text

_TURNS = 5


class RecordedSocket:
    """Remembers its options."""

    def __init__(self) -> None:
        self.options: dict[tuple[int, int], Any] = {}

    def setsockopt(self, level: int, option: int, value: Any) -> None:
        """Remembers one."""
        self.options[level, option] = value


class RecordingTransport(asyncio.Transport):
    """Remembers what is written; ``waiting`` is what the peer has not taken."""

    def __init__(self) -> None:
        self.socket = RecordedSocket()
        super().__init__({"peername": ("192.0.2.1", 7), "socket": self.socket})
        self.sent = b""
        self.waiting = 0
        self.high: int | None = None
        self.reading = True
        self.ended = self.closed = self.aborted = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self.high = high

    def get_write_buffer_size(self) -> int:
        return self.waiting

    def write(self, data: Any) -> None:
        self.sent += data

    def writelines(self, list_of_data: Any) -> None:
        self.sent += b"".join(list_of_data)

    def write_eof(self) -> None:
        self.ended = True

    def can_write_eof(self) -> bool:
        return True

    def is_closing(self) -> bool:
        return self.closed or self.aborted

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.aborted = True


class ServerBook:
    """What a server keeps about its connections."""

    def __init__(self) -> None:
        self.total_requests = 0
        self.connections: set[Any] = set()
        self.tasks: set[asyncio.Task[None]] = set()


class FedConnection:
    """A connection, its transport, and the server's book about it."""

    def __init__(self, handler: Handler, limits: ServerLimits | None = None) -> None:
        self.state = ServerBook()
        self.transport = RecordingTransport()
        plane = Plane(handler, refuse_in_plain_text, limits or ServerLimits())
        self.connection = ServerConnection(plane, self.state, asyncio.get_running_loop())
        self.connection.connection_made(self.transport)

    def receive(self, data: bytes) -> None:
        """The peer sends ``data``."""
        self.connection.data_received(data)

    def lose(self) -> None:
        """The peer is gone."""
        self.connection.connection_lost(None)

    async def settle(self) -> None:
        """Lets every handler that can go on do so."""
        for _ in range(_TURNS):
            await asyncio.sleep(0)

    @property
    def over(self) -> bool:
        """Whether nothing that still comes will be taken for a request."""
        return self.transport.ended or self.transport.is_closing()
