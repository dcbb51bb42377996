"""Telling a caller that closed its sending side from one that closed its connection.

Both look the same: the stream ends. Only the answer to bytes sent tells them apart, a reset from
the one that is gone. The transport does not report it, because it has stopped reading.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Final

_FIRST_LOOK_SECONDS: Final = 0.005
_LAST_LOOK_SECONDS: Final = 1.0


class HalfCloseWatch:
    """Looks for the reset that answers a probe, for about a second, and aborts the transport.

    The looks are 5, 10, 20, … ms apart: a near caller is found at once, a distant one as well.
    """

    __slots__ = ("_delay", "_loop", "_timer", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._delay = _FIRST_LOOK_SECONDS
        self._timer = loop.call_later(self._delay, self._look)

    def stop(self) -> None:
        """Looks no more."""
        self._timer.cancel()

    def _look(self) -> None:
        if _is_reset(self._transport):
            self._transport.abort()
            return
        self._delay *= 2
        if self._delay <= _LAST_LOOK_SECONDS:
            self._timer = self._loop.call_later(self._delay, self._look)


def _is_reset(transport: asyncio.Transport) -> bool:
    connection = transport.get_extra_info("socket")
    try:
        return bool(connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
    except OSError:
        return True
