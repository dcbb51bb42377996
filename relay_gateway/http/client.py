"""The upstream client of the data path: pooled HTTP/1.1, no redirects, no environment proxies."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence

from relay_gateway.errors import UpstreamClosedError, UpstreamConnectError
from relay_gateway.http.answer import Exchange, Receiver
from relay_gateway.http.dial import Dialer
from relay_gateway.http.egress import EgressRules, Network
from relay_gateway.http.outgoing_head import ForwardedRequest, OutgoingRequest, outgoing
from relay_gateway.http.pool import Pool, PoolLimits
from relay_gateway.http.portions import Portions
from relay_gateway.http.resolve import Resolver, SystemResolver
from relay_gateway.http.target import Target
from relay_gateway.http.tunnel import ProxyLogins
from relay_gateway.http.upload import BodyWriter
from relay_gateway.http.upstream_connection import UpstreamConnection
from relay_gateway.plugin.providers import UpstreamRequest

__all__ = ["Exchange", "HttpClient", "Receiver"]

SWEEP_SECONDS = 0.5
"""Precision of deadlines, unless a target has a timeout so short that a tenth of it is finer."""
FINEST_SWEEP_SECONDS = 0.01
LATE_SECONDS = 1.0
"""A sweep that is later than this comes after the process stood still."""


class HttpClient:
    """Sends requests to upstreams over kept-alive connections, one pool per target.

    ``egress_deny`` are networks that are refused besides those that always are; ``logins`` is asked
    for those of egress proxies. One instance serves one event loop.
    """

    def __init__(
        self,
        *,
        egress_deny: Sequence[Network] = (),
        resolver: Resolver | None = None,
        limits: PoolLimits = PoolLimits(),  # noqa: B008  # frozen
        logins: ProxyLogins | None = None,
    ) -> None:
        self._dialer = Dialer(resolver or SystemResolver(), EgressRules(egress_deny), logins)
        self._limits = limits
        self._pools: dict[Target, Pool] = {}
        self._sweep_seconds = SWEEP_SECONDS
        self._swept_at = 0.0
        self._busy: Portions[UpstreamConnection] = Portions(self._check)
        self._sweep_timer: asyncio.TimerHandle | None = None
        self._closed = False

    async def send(self, target: Target, request: UpstreamRequest) -> Exchange:
        """Sends ``request`` and returns when the final response head is there.

        A request whose reused connection turns out to be closed, before any byte came back, is sent
        once more on a new one (``Exchange.resent``). Cancelling closes the connection. Raises the
        subclasses of :class:`UpstreamError`, and :class:`UpstreamError` itself for a request that
        cannot be framed.
        """
        prepared = outgoing(target, request)
        return await self.answer(target, prepared, await self.begin(target, prepared))

    def begin_now(self, target: Target, request: OutgoingRequest) -> Exchange | None:
        """Sends ``request`` if a connection is idle; its head may come with ``on_head``."""
        pool = self._pools.get(target)
        connection = pool.take() if pool is not None else None
        return None if connection is None else connection.start(request)

    async def begin(self, target: Target, request: OutgoingRequest) -> Exchange:
        """Sends ``request`` as soon as there is a connection; its head is still to come."""
        pool = self._pools.get(target) or self._open_pool(target)
        connection = pool.take() or await pool.acquire()
        return connection.start(request)

    async def answer(
        self, target: Target, request: OutgoingRequest, exchange: Exchange
    ) -> Exchange:
        """The exchange when its head is there, or that of a ``request`` sent again; as :meth:`send`
        says."""
        try:
            await exchange.answered()
        except UpstreamClosedError:
            if not (exchange.reused and exchange.untouched) or self._closed:
                raise
        else:
            return exchange
        pool = self._pools.get(target) or self._open_pool(target)
        exchange = (await pool.acquire_new()).start(request)
        exchange.resent = True
        await exchange.answered()
        return exchange

    async def upload(
        self, target: Target, request: ForwardedRequest, *, chunked: bool
    ) -> tuple[Exchange, BodyWriter]:
        """Sends the head of ``request``, and gives what its body is to be written with.

        It goes out on a connection that has not carried anything: a body that is not held cannot be
        sent again when a reused connection turns out to be closed.
        """
        pool = self._pools.get(target) or self._open_pool(target)
        connection = await pool.acquire_new()
        exchange = connection.start(request)
        return exchange, connection.open_upload(exchange, chunked=chunked)

    def retain(self, targets: Collection[Target]) -> None:
        """Keeps connections to ``targets`` only: others are closed, busy ones when done."""
        for target, pool in self._pools.items():
            pool.retired = target not in targets
            if pool.retired:
                pool.close_idle()

    async def aclose(self) -> None:
        """Closes every connection; exchanges under way fail with :class:`UpstreamClosedError`."""
        self._closed = True
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        for pool in self._pools.values():
            pool.shut_down()
        self._pools.clear()
        # Transports close in callbacks of the loop's next turns.
        for _ in range(3):
            await asyncio.sleep(0)

    def _open_pool(self, target: Target) -> Pool:
        if self._closed:
            raise UpstreamConnectError("the gateway is closing its connections", sent=False)
        pool = self._pools[target] = Pool(target, self._dialer, self._limits)
        finest = min(target.shortest_timeout, self._limits.idle) / 10
        if finest < self._sweep_seconds:
            self._sweep_seconds = max(finest, FINEST_SWEEP_SECONDS)
            if self._sweep_timer is not None:
                self._sweep_timer.cancel()
                self._sweep_timer = None
        if self._sweep_timer is None:
            self._schedule_sweep()
        return pool

    def _schedule_sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._swept_at = loop.time()
        self._sweep_timer = loop.call_later(self._sweep_seconds, self._sweep)

    def _sweep(self) -> None:
        """Looks after all deadlines; a timer per request would cost more than its parsing."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        if now - self._swept_at > 2 * self._sweep_seconds + LATE_SECONDS:
            # The process stood still, and what hosts answered in time has not been read yet.
            self._schedule_sweep()
            return
        self._swept_at = now
        busy: list[UpstreamConnection] = []
        for target, pool in tuple(self._pools.items()):
            busy += pool.sweep(now)
            if pool.is_empty:
                del self._pools[target]
        self._busy.begin(busy, loop)
        if self._pools:
            self._schedule_sweep()
        else:
            self._sweep_timer = None
            self._sweep_seconds = SWEEP_SECONDS

    def _check(self, connection: UpstreamConnection) -> None:
        connection.check(self._swept_at)
