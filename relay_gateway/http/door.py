"""How many connections may be open, in total and by the address they come from.

Whoever finds no room is told so and sent away without being heard, and does not count: many that
come from one address take no room from those of another.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Final, Literal

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.egress import embedded
from relay_gateway.http.limits import ServerLimits

Bound = Literal["total", "address"]
MAX_LEAVING: Final = 128
"""How many are told at a time; further ones are reset without a word."""
LOG_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 1

_log = logging.getLogger(__name__)


class Door:
    """Counts the connections of one server. ``word`` makes the whole answer of a refusal.

    ``refused`` has how many were sent away so far, by the bound that they met.
    """

    __slots__ = ("_by_address", "_leaving", "_limits", "_quiet_until", "_word", "open", "refused")

    def __init__(self, limits: ServerLimits, word: Callable[[RequestRefusedError], bytes]) -> None:
        self._limits = limits
        self._word = word
        self._by_address: dict[str, int] = {}
        self._leaving = 0
        self._quiet_until = 0.0
        self.open = 0
        self.refused: Counter[Bound] = Counter()

    def lets_in(self, transport: asyncio.Transport, address: str) -> bool:
        """Counts a connection from ``address``, to be undone with :meth:`leave`; or takes it away
        from its protocol and sends it off."""
        source = _counted_as(address, self._limits.uncounted)
        held = self._by_address.get(source, 0)
        if self.open >= self._limits.connections:
            self._turn_away(transport, "total", address)
        elif source and held >= self._limits.connections_per_address:
            self._turn_away(transport, "address", address)
        else:
            self.open += 1
            self._by_address[source] = held + 1
            return True
        return False

    def leave(self, address: str) -> None:
        """A connection that was let in is gone."""
        self.open -= 1
        source = _counted_as(address, self._limits.uncounted)
        held = self._by_address[source] - 1
        if held:
            self._by_address[source] = held
        else:
            del self._by_address[source]

    def _turn_away(self, transport: asyncio.Transport, bound: Bound, address: str) -> None:
        self.refused[bound] += 1
        self._tell_operator(bound, address)
        leaving = _Leaving(self._left)
        transport.set_protocol(leaving)
        self._leaving += 1
        if self._leaving > MAX_LEAVING:
            transport.abort()
        else:
            answer = self._word(self._refusal(bound))
            leaving.say(transport, answer, self._limits.linger_seconds)

    def _left(self) -> None:
        self._leaving -= 1

    def _refusal(self, bound: Bound) -> RequestRefusedError:
        if bound == "total":
            message = "The gateway has as many connections as it can take; try again."
            return RequestRefusedError(503, "overloaded", message, retry_after=_RETRY_SECONDS)
        message = "Too many connections are open from this address; use those that are."
        return RequestRefusedError(429, "too_many_connections", message, retry_after=_RETRY_SECONDS)

    def _tell_operator(self, bound: Bound, address: str) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._quiet_until:
            return
        self._quiet_until = now + LOG_SECONDS
        setting = "max_connections" if bound == "total" else "max_connections_per_address"
        _log.warning(
            "a connection from %s found no room: %d are open (%s); refused so far: %s",
            address, self.open, setting, dict(self.refused),
        )  # fmt: skip


class _Leaving(asyncio.Protocol):
    """A connection on its way out: hears nothing, and goes when its caller has read the answer."""

    def __init__(self, left: Callable[[], None]) -> None:
        self._left = left
        self._timer: asyncio.TimerHandle | None = None

    def say(self, transport: asyncio.Transport, answer: bytes, seconds: float) -> None:
        """Sends ``answer`` and the end, and waits for the caller's for ``seconds``: a close under
        the feet of one that is still sending would destroy the answer (RFC 9112 §9.6)."""
        self._timer = asyncio.get_running_loop().call_later(seconds, transport.abort)
        transport.write(answer)
        if transport.can_write_eof():
            transport.write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """It is gone."""
        if self._timer is not None:
            self._timer.cancel()
        self._left()


@lru_cache(maxsize=4096)
def _counted_as(address: str, uncounted: tuple[IPv4Network | IPv6Network, ...]) -> str:
    """Under which name connections from ``address`` are counted together; none for addresses that
    are not: trusted proxies, which speak for many, and callers without one.

    Of IPv6 that is the network of 64 bits, which is what a single caller has at the least.
    """
    try:
        real = embedded(ip_address(address.partition("%")[0]))
    except ValueError:
        return ""
    if any(real in network for network in uncounted):
        return ""
    return str(real) if real.version == 4 else str(ip_network((real, 64), strict=False))
