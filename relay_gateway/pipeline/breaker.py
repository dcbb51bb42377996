"""Circuit breakers of hosts: one that fails is left alone for a while, and then tried by one
request.

    closed ── five failures in a row, or half of at least twenty in ten seconds ──▶ ejected
    ejected ── its time is over ──▶ half-open: one request at a time is let through
    half-open ── that request is answered ──▶ closed;  ── it fails ──▶ ejected, for longer

Every state but the first ends by itself on the monotonic clock. A host without a recent failure has
no breaker at all, so a healthy gateway pays nothing for them.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from relay_gateway.catalog.snapshot import Host
from relay_gateway.plugin.context import Clock

CONSECUTIVE: Final = 5
SAMPLES: Final = 20
SHARE: Final = 0.5
WINDOW_SECONDS: Final = 10
EJECT_SECONDS: Final = 30.0
LONGEST_EJECTION: Final = 300.0
LONGEST_WISH: Final = 600.0
"""How long a host may ask to be left alone."""
PROBE_SECONDS: Final = 30.0
"""How long a request that tries a host is waited for before another may, and how often one may try
an ejected host that nothing else can stand in for."""
FORGET_SECONDS: Final = 600.0
"""After so long without a failure the next ejection is the first one again."""


class Breaker:
    """The breaker of one host. Times are seconds of the monotonic clock.

    Only attempts that began after its last change of state count: what was under way by then
    belongs to the time before.
    """

    __slots__ = (
        "_asked",
        "_failed",
        "_in_a_row",
        "_seconds",
        "ejections",
        "host",
        "last_failure",
        "probe_until",
        "reason",
        "since",
        "until",
    )

    def __init__(self, host: Host, now: float) -> None:
        self.host = host
        self.until = 0.0
        """When the ejection ends; 0 while the breaker is closed."""
        self.since = now
        self.probe_until = 0.0
        self.ejections = 0
        self.last_failure = now
        self.reason = ""
        self._in_a_row = 0
        self._seconds = [0] * WINDOW_SECONDS
        self._asked = [0] * WINDOW_SECONDS
        self._failed = [0] * WINDOW_SECONDS

    @property
    def is_closed(self) -> bool:
        """Whether requests pass without being watched one by one."""
        return not self.until

    def allows(self, now: float) -> bool:
        """Whether a request may be sent to the host."""
        return not self.until or (self.until <= now and self.probe_until <= now)

    def allows_last_resort(self, now: float) -> bool:
        """Whether one may be sent although the host is ejected, because nothing else is left."""
        return self.probe_until <= now

    def claim(self, now: float) -> None:
        """A request goes out. Where it is the one that tries the host, no other may for a while."""
        if self.until:
            self.probe_until = now + PROBE_SECONDS

    def release(self) -> None:
        """The request that tried the host ended without showing anything."""
        self.probe_until = 0.0

    def wait(self, now: float) -> float:
        """Seconds until a request that has nowhere else to go may be sent, at least 1."""
        return max(1.0, self.probe_until - now)

    def succeeded(self, began: float, now: float) -> None:
        """An attempt that began at ``began`` was answered."""
        if self.until:
            if began >= self.since and self.probe_until:
                self._close(now)
            return
        if began >= self.since:
            self._in_a_row = 0
            self._count(now, failed=0)

    def failed(
        self, began: float, now: float, reason: str, wish: float | None, jitter: float
    ) -> bool:
        """An attempt failed; whether that ejects the host, for ``wish`` seconds at the least."""
        self.last_failure = now
        if began < self.since:
            return False
        self.reason = reason
        if self.until:
            self._eject(now, wish, jitter)
            return True
        self._in_a_row += 1
        self._count(now, failed=1)
        if self._in_a_row < CONSECUTIVE and not self._is_flaky(now):
            return False
        self._eject(now, wish, jitter)
        return True

    def _eject(self, now: float, wish: float | None, jitter: float) -> None:
        self.ejections += 1
        seconds = min(LONGEST_EJECTION, EJECT_SECONDS * self.ejections)
        seconds = max(seconds, min(LONGEST_WISH, wish or 0.0)) * jitter
        # Never shortened by a later, shorter one.
        self.until = max(self.until, now + seconds)
        self.since, self.probe_until = now, now + PROBE_SECONDS

    def _close(self, now: float) -> None:
        self.until, self.since, self.probe_until, self._in_a_row = 0.0, now, 0.0, 0
        self._seconds = [0] * WINDOW_SECONDS

    def _count(self, now: float, *, failed: int) -> None:
        second = int(now)
        slot = second % WINDOW_SECONDS
        if self._seconds[slot] != second:
            self._seconds[slot], self._asked[slot], self._failed[slot] = second, 0, 0
        self._asked[slot] += 1
        self._failed[slot] += failed

    def _is_flaky(self, now: float) -> bool:
        oldest = int(now) - WINDOW_SECONDS
        recent = [slot for slot in range(WINDOW_SECONDS) if self._seconds[slot] > oldest]
        asked = sum(self._asked[slot] for slot in recent)
        failed = sum(self._failed[slot] for slot in recent)
        return asked >= SAMPLES and failed >= asked * SHARE


class HostState(msgspec.Struct, frozen=True):
    """What this process makes of one host. ``seconds_left`` is how long the ejection lasts."""

    state: str
    reason: str | None = None
    seconds_left: float | None = None
    ejections: int = 0


HEALTHY: Final = HostState("available")


def _jitter() -> float:
    return random.uniform(1.0, 1.1)  # noqa: S311 - jitter


def _never(_began: float, _now: float) -> bool:
    return False


class HostBreakers:
    """The breakers of this process. ``stalled`` tells whether the process itself stood still within
    a time: what was under way then says nothing about a host."""

    def __init__(
        self,
        clock: Clock,
        stalled: Callable[[float, float], bool] = _never,
        jitter: Callable[[], float] = _jitter,
    ) -> None:
        self._clock = clock
        self._jitter = jitter
        self.stalled = stalled
        self.troubled: dict[str, Breaker] = {}
        """The breakers that there are, by id of their host: those of hosts that failed lately."""
        self.opened: dict[str, int] = {}
        """How often each host was ejected, by its id."""

    def succeeded(self, host_id: str, began: float) -> None:
        """A host with a breaker has answered."""
        breaker = self.troubled.get(host_id)
        if breaker is None:
            return
        now = self._clock.monotonic()
        breaker.succeeded(began, now)
        if breaker.is_closed and now - breaker.last_failure > FORGET_SECONDS:
            del self.troubled[host_id]

    def failed(self, host: Host, began: float, reason: str, wish: float | None = None) -> None:
        """A host did not answer, or failed; it may ask to be left alone for ``wish`` seconds."""
        now = self._clock.monotonic()
        breaker = self.troubled.get(host.id)
        if self.stalled(began, now):
            if breaker is not None:
                breaker.release()
            return
        if breaker is None:
            # From the beginning of the attempt, which would not count otherwise.
            breaker = self.troubled[host.id] = Breaker(host, began)
        elif breaker.is_closed and now - breaker.last_failure > FORGET_SECONDS:
            breaker.ejections = 0
        if breaker.failed(began, now, reason, wish, self._jitter()):
            self.opened[host.id] = self.opened.get(host.id, 0) + 1

    def retain(self, hosts: Mapping[str, Host]) -> None:
        """Lets go of hosts that are gone or were changed: those start anew."""
        for host_id, breaker in list(self.troubled.items()):
            if hosts.get(host_id) is not breaker.host:
                del self.troubled[host_id]
        for host_id in self.opened.keys() - hosts.keys():
            del self.opened[host_id]

    def reset(self, host_id: str) -> None:
        """Puts a host back to use as if it had never failed."""
        self.troubled.pop(host_id, None)

    def wait(self, host_id: str) -> float:
        """Seconds until a request may be sent to the host; 0 where it may now."""
        breaker, now = self.troubled.get(host_id), self._clock.monotonic()
        return 0.0 if breaker is None or breaker.allows(now) else breaker.wait(now)

    def describe(self, host_id: str) -> HostState:
        """The state of a host as the control plane shows it."""
        breaker = self.troubled.get(host_id)
        if breaker is None or breaker.is_closed:
            return HEALTHY
        left = breaker.until - self._clock.monotonic()
        if left <= 0:
            return HostState("half-open", breaker.reason, None, breaker.ejections)
        return HostState("ejected", breaker.reason, round(left, 1), breaker.ejections)
