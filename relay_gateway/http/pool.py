"""The connections of one target: idle ones are reused last in first out, callers wait in line."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

import msgspec

from relay_gateway.errors import UpstreamClosedError, UpstreamOverloadedError
from relay_gateway.http.dial import Dialer
from relay_gateway.http.target import Target
from relay_gateway.http.upstream_connection import UpstreamConnection


class PoolLimits(msgspec.Struct, frozen=True):
    """How long things may wait, in seconds.

    ``idle`` is below the five seconds after which common servers close idle connections, so that
    the race between their close and our next request is rare. ``wait`` is how long a caller stands
    in line for a connection, ``waiting`` how many may.
    """

    idle: float = 4.0
    wait: float = 1.0
    waiting: int = 1024


class Pool:
    """At most ``target.max_connections`` connections, those being dialled included."""

    __slots__ = (
        "_connections",
        "_dialer",
        "_idle",
        "_limits",
        "_loop",
        "_open",
        "_waiters",
        "retired",
        "target",
    )

    def __init__(self, target: Target, dialer: Dialer, limits: PoolLimits) -> None:
        self.target = target
        self.retired = False
        """Whether finished connections are to be closed instead of kept."""
        self._dialer = dialer
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._open = 0
        self._connections: set[UpstreamConnection] = set()
        self._idle: dict[UpstreamConnection, None] = {}
        self._waiters: deque[asyncio.Future[UpstreamConnection | None]] = deque()

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a connection nor somebody who waits for one."""
        return not self._open and not self._waiters

    def take(self) -> UpstreamConnection | None:
        """An idle connection that may be used, if there is one."""
        idle = self._idle
        while idle:
            connection = idle.popitem()[0]
            if connection.is_usable(self._loop.time(), self._limits.idle):
                return connection
            connection.close()
        return None

    async def acquire(self) -> UpstreamConnection:
        """A new connection or, when there is no room for one, the next that becomes free.

        Raises :class:`UpstreamOverloadedError` when none does in time, and what dialling raises.
        """
        if self._open < self.target.max_connections:
            self._open += 1
            return await self._dial()
        return await self._wait() or await self._dial()

    async def acquire_new(self) -> UpstreamConnection:
        """A connection that has not carried anything, at the cost of one that has if need be."""
        if self._open < self.target.max_connections:
            self._open += 1
            return await self._dial()
        if self._idle:
            connection: UpstreamConnection | None = next(iter(self._idle))
        else:
            connection = await self._wait()
        if connection is not None:
            self._take_place_of(connection)
        return await self._dial()

    async def _dial(self) -> UpstreamConnection:
        """Connects; the caller has counted the connection in ``_open`` already."""
        connection = UpstreamConnection(self, self.target, self._loop)
        try:
            await self._dialer.dial(self.target, connection)
            if connection.closed:
                raise UpstreamClosedError(
                    f"{self.target.name} closed the connection as soon as it was open", sent=False
                )
        except BaseException:
            connection.close()
            self._free_place()
            raise
        self._connections.add(connection)
        return connection

    async def _wait(self) -> UpstreamConnection | None:
        """The next free connection, or ``None`` for a place that is free to dial in."""
        if len(self._waiters) >= self._limits.waiting:
            raise self._overloaded(f"{len(self._waiters)} requests are waiting already")
        waiter: asyncio.Future[UpstreamConnection | None] = self._loop.create_future()
        self._waiters.append(waiter)
        try:
            async with asyncio.timeout(self._limits.wait):
                return await waiter
        except TimeoutError as error:
            self._give_back(waiter)
            raise self._overloaded(f"none became free within {self._limits.wait:g} s") from error
        except asyncio.CancelledError:
            self._give_back(waiter)
            raise

    def _give_back(self, waiter: asyncio.Future[UpstreamConnection | None]) -> None:
        """Undoes a wait that ended by itself, possibly just after it had been granted."""
        if waiter.cancelled() or not waiter.done():
            # A grant that came between the cancellation and this has passed over it already.
            with suppress(ValueError):
                self._waiters.remove(waiter)
            return
        connection = waiter.result()
        if connection is None:
            self._free_place()
        elif not connection.closed:
            self.released(connection)

    def _overloaded(self, why: str) -> UpstreamOverloadedError:
        limit = self.target.max_connections
        return UpstreamOverloadedError(
            f"all {limit} connections to {self.target.name} are in use and {why}; "
            "raise the host's maxConnections or spread the load"
        )

    def _grant(self, connection: UpstreamConnection | None) -> bool:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return True
        return False

    def _free_place(self) -> None:
        if not self._grant(None):
            self._open -= 1

    def _take_place_of(self, connection: UpstreamConnection) -> None:
        self._connections.discard(connection)
        self._idle.pop(connection, None)
        connection.close()

    # Called by connections.

    def released(self, connection: UpstreamConnection) -> None:
        """A connection has done its work and may do more."""
        if self.retired:
            connection.close()
        elif not self._grant(connection):
            connection.idle_since = self._loop.time()
            self._idle[connection] = None

    def lost(self, connection: UpstreamConnection) -> None:
        """A connection is closed."""
        if connection in self._connections:
            self._connections.remove(connection)
            self._idle.pop(connection, None)
            self._free_place()

    # Called by the client.

    def sweep(self, now: float) -> list[UpstreamConnection]:
        """Closes what has been idle too long; gives the others, whose deadlines are to be
        checked."""
        for connection in tuple(self._idle):
            if connection.is_usable(now, self._limits.idle):
                break
            connection.close()
        return [one for one in self._connections if one not in self._idle]

    def close_idle(self) -> None:
        """Closes every idle connection."""
        for connection in tuple(self._idle):
            connection.close()

    def shut_down(self) -> None:
        """Closes every connection; exchanges under way fail."""
        self.retired = True
        for connection in tuple(self._connections):
            connection.shut_down()
