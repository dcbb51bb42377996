"""Deadlines of the server's connections, looked at once a second for all of them.

A timer per message costs a microsecond each time it is set and cancelled; an attribute that a sweep
compares once a second costs nothing on the request path. Timers are for the few who are due next.
"""

from __future__ import annotations

import asyncio
from heapq import heappop, heappush
from typing import Final, Protocol

from relay_gateway.http.limits import ServerLimits
from relay_gateway.http.portions import Portions

NEVER: Final = float("inf")
"""The deadline of a connection that waits for us, not for its peer."""
STEP_SECONDS: Final = 0.002
"""Those who are due within this time are told together."""
_BLOCKED_SECONDS: Final = 1.0
"""Who comes by an interval and this later than planned has not read what peers sent meanwhile."""


class Deadlined(Protocol):
    """Something that must be told when the time in its ``deadline`` has come."""

    deadline: float

    def on_deadline(self, now: float) -> None:
        """Acts on the deadline: ends the connection, or sets a later ``deadline``."""


class DeadlineSweep:
    """Tells each of its connections when its deadline has passed.

    Every ``interval`` seconds it looks who is due before it looks again, and tells these when their
    time has come, :data:`STEP_SECONDS` late at most; a deadline that was set for sooner than that
    by anything but :meth:`Deadlined.on_deadline` is exceeded by ``interval`` at most. Were all told
    when it looks, they would also come back together, and callers in between would wait for all of
    them. Those whose time has come together are told in portions.

    A timer runs only while there are connections, so an idle server does not wake up.
    """

    __slots__ = (
        "_coming",
        "_connections",
        "_due",
        "_interval",
        "_look",
        "_loop",
        "_now",
        "_planned",
        "_tell_at",
        "_until",
    )

    def __init__(self, interval: float) -> None:
        self._interval = interval
        self._connections: set[Deadlined] = set()
        self._coming: list[tuple[float, int, Deadlined]] = []
        """A heap of those who are due before the next look."""
        self._until = 0.0
        """When that is."""
        self._loop: asyncio.AbstractEventLoop
        self._look: asyncio.TimerHandle | None = None
        self._tell_at: asyncio.TimerHandle | None = None
        self._planned = NEVER
        """When the next are told."""
        self._now = 0.0
        self._due: Portions[Deadlined] = Portions(self._tell)

    def add(self, connection: Deadlined, loop: asyncio.AbstractEventLoop) -> None:
        """Watches ``connection`` until it is discarded."""
        self._connections.add(connection)
        if self._look is None:
            self._loop = loop
            self._look_again(loop.time())

    def discard(self, connection: Deadlined) -> None:
        """Stops watching ``connection``; the last one stops the timers."""
        self._connections.discard(connection)
        if not self._connections and self._look is not None:
            self._look.cancel()
            self._look = None
            self._forget_coming()

    def __len__(self) -> int:
        return len(self._connections)

    def _look_again(self, now: float) -> None:
        self._until = now + self._interval
        self._look = self._loop.call_at(self._until, self._sweep)

    def _sweep(self) -> None:
        late = self._is_late(self._until)
        self._look_again(self._loop.time())
        self._forget_coming()
        if late:
            return
        for each in self._connections:
            if each.deadline <= self._until:
                self._expect(each)
        self._tell_due()

    def _tell_due(self) -> None:
        self._tell_at = None
        if self._is_late(self._planned):
            self._forget_coming()
            return
        self._planned = NEVER
        self._now = now = self._loop.time()
        due = []
        while self._coming and self._coming[0][0] <= now:
            due.append(heappop(self._coming)[2])
        self._plan()  # first, because what is told may fail
        self._due.add(due, self._loop)

    def _expect(self, connection: Deadlined) -> None:
        heappush(self._coming, (connection.deadline, id(connection), connection))

    def _plan(self) -> None:
        """Has the first of those who are coming told in time."""
        if self._coming and self._coming[0][0] < self._planned:
            if self._tell_at is not None:
                self._tell_at.cancel()
            self._planned = max(self._coming[0][0], self._now + STEP_SECONDS)
            self._tell_at = self._loop.call_at(self._planned, self._tell_due)

    def _forget_coming(self) -> None:
        self._coming.clear()
        self._planned = NEVER
        if self._tell_at is not None:
            self._tell_at.cancel()
            self._tell_at = None

    def _is_late(self, planned: float) -> bool:
        """Whether the process was stopped, or the loop blocked: what the peers have sent in time is
        still unread then, and they are judged at the next look, when it has been read."""
        return self._loop.time() - planned > self._interval + _BLOCKED_SECONDS

    def _tell(self, connection: Deadlined) -> None:
        # It may have gone, or been heard of, since it was found to be due.
        if connection.deadline <= self._now and connection in self._connections:
            connection.on_deadline(self._now)
            if self._now < connection.deadline <= self._until:
                self._expect(connection)
                self._plan()


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
