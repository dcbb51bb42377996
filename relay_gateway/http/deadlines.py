"""Deadlines of the server's connections, looked at by one coarse timer for all of them.

A timer per message costs a microsecond each time it is set and cancelled; an attribute that a sweep
compares once a second costs nothing on the request path.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from relay_gateway.http.limits import ServerLimits
from relay_gateway.http.portions import Portions

NEVER: Final = float("inf")
"""The deadline of a connection that waits for us, not for its peer."""


class Deadlined(Protocol):
    """Something that must be told when the time in its ``deadline`` has come."""

    deadline: float

    def on_deadline(self, now: float) -> None:
        """Acts on the deadline: ends the connection, or sets a later ``deadline``."""


class DeadlineSweep:
    """Tells each of its connections when its deadline has passed, up to ``interval`` seconds late.

    The timer runs only while there are connections, so an idle server does not wake up. Where the
    time of very many has come, it tells them in portions.
    """

    __slots__ = ("_connections", "_due", "_interval", "_last", "_now", "_timer")

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._connections: set[Deadlined] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._last = self._now = 0.0
        self._due: Portions[Deadlined] = Portions(self._tell)

    def add(self, connection: Deadlined, loop: asyncio.AbstractEventLoop) -> None:
        """Watches ``connection`` until it is discarded."""
        self._connections.add(connection)
        if self._timer is None:
            self._schedule(loop)

    def discard(self, connection: Deadlined) -> None:
        """Stops watching ``connection``; the last one stops the timer."""
        self._connections.discard(connection)
        if not self._connections and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def __len__(self) -> int:
        return len(self._connections)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._last = loop.time()
        self._timer = loop.call_later(self._interval, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        # After a stopped process or a blocked loop, what the peers sent in time is still unread:
        # judge them at the next sweep, when it has been read.
        stalled = now - self._last > 2 * self._interval + 1
        self._schedule(loop)
        if stalled:
            return
        self._now = now
        self._due.begin([each for each in self._connections if each.deadline <= now], loop)

    def _tell(self, connection: Deadlined) -> None:
        # It may have gone, or been heard of, since it was found to be due.
        if connection.deadline <= self._now and connection in self._connections:
            connection.on_deadline(self._now)


class WriteProgress:
    """Whether a peer that has answer bytes waiting for it takes any of them."""

    __slots__ = ("_flushed", "_since")

    def __init__(self) -> None:
        self._flushed = -1
        self._since = 0.0

    def start(self, now: float, flushed: int) -> None:
        """Begins to watch at ``now``, when ``flushed`` bytes of the connection had left."""
        self._flushed = flushed
        self._since = now

    def stalled_for(self, now: float, flushed: int) -> float:
        """Seconds since the peer last took anything; ``flushed`` as in :meth:`start`."""
        if flushed != self._flushed:
            self.start(now, flushed)
        return now - self._since


def body_deadline(
    limits: ServerLimits, started: float, received: int, expected: int | None
) -> float:
    """When a body must have brought more than ``received`` bytes, or else be refused.

    ``started`` is when the peer could begin to send it, ``expected`` its announced length.
    """
    size = received if expected is None else expected
    blocks = max(1, -(-size // limits.body_block_bytes))
    at_rate = limits.body_grace_seconds + received / limits.body_bytes_per_second
    return started + min(at_rate, blocks * limits.body_block_seconds)
