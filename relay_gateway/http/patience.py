"""How long a connection waits for its caller: to send, and to take what is sent to it."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Final

from relay_gateway.http.deadlines import NEVER, WriteProgress
from relay_gateway.http.limits import ServerLimits

_LOOKS_PER_STALL: Final = 4
_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)


class PatientProtocol(asyncio.Protocol):
    """The half of a caller's connection that sends, and that knows when to wait no more.

    The sweep calls :meth:`on_deadline` when the time in ``deadline`` has come.
    """

    __slots__ = (
        "_limits",
        "_loop",
        "_progress",
        "_read_deadline",
        "_transport",
        "_write_look",
        "_written",
        "deadline",
    )

    def __init__(self, limits: ServerLimits, loop: asyncio.AbstractEventLoop) -> None:
        self._limits = limits
        self._loop = loop
        self._transport: asyncio.Transport
        self._progress = WriteProgress()
        self._written = 0
        self._read_deadline = self._write_look = self.deadline = NEVER

    def send(self, data: bytes) -> None:
        """Hands bytes to the transport."""
        self._written += len(data)
        self._transport.write(data)

    def send_pieces(self, *pieces: bytes) -> None:
        """Hands pieces to the transport, all in one system call."""
        self._written += sum(map(len, pieces))
        self._transport.writelines(pieces)

    def send_soon(self, flush: Callable[[], None]) -> None:
        """Has ``flush`` called once the running callback and those already due are done."""
        self._loop.call_soon(flush)

    def on_deadline(self, now: float) -> None:
        """Ends what has waited for the caller for too long."""
        if now >= self._write_look and self._writes_stalled(now):
            # A mere close would leave the kernel with all that the caller does not take, for
            # minutes, and then end an answer without length as if it were whole.
            self._reset()
        elif now >= self._read_deadline:
            self._stop_waiting(now)

    def _read_until(self, deadline: float) -> None:
        self._read_deadline = deadline
        self.deadline = min(deadline, self._write_look)

    def _watch_writes(self) -> None:
        """Begins to look whether the caller takes what is sent."""
        now = self._loop.time()
        self._progress.start(now, self._written - self._transport.get_write_buffer_size())
        self._look_at_writes_after(now)

    def _look_at_writes_after(self, now: float) -> None:
        self._write_look = now + self._limits.write_stall_seconds / _LOOKS_PER_STALL
        self.deadline = min(self._read_deadline, self._write_look)

    def _writes_stalled(self, now: float) -> bool:
        waiting = self._transport.get_write_buffer_size()
        if not waiting and not self._is_closed():
            self._write_look = NEVER
            self._read_until(self._read_deadline)
            return False
        self._look_at_writes_after(now)
        stalled = self._progress.stalled_for(now, self._written - waiting)
        return stalled >= self._limits.write_stall_seconds

    def _abort_with_reset(self) -> None:
        connection = self._transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self._transport.abort()

    # What the other half says.

    def _is_closed(self) -> bool:
        raise NotImplementedError

    def _reset(self) -> None:
        raise NotImplementedError

    def _stop_waiting(self, now: float) -> None:
        raise NotImplementedError
