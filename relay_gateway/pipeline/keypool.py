"""The health of host keys and the order in which a pool of them is tried."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from relay_gateway.catalog.snapshot import HostKey
from relay_gateway.plugin.context import Clock

MIN_BENCH = 1.0
MAX_BENCH = 60.0
MAX_RETRY_AFTER = 600.0
CREDENTIAL_BENCH = 60.0


@dataclass(slots=True)
class KeyState:
    """What this process knows of one host key. Times are of the monotonic clock."""

    benched_until: float = 0.0
    reason: str | None = None
    strikes: int = 0
    in_flight: int = 0
    last_used: float = 0.0

    def recover(self) -> None:
        """Forgets every failure."""
        self.benched_until, self.reason, self.strikes = 0.0, None, 0


class KeyPools:
    """States of all host keys that were ever drawn, by id; every bench ends by itself."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._states: dict[str, KeyState] = {}
        self._turn = 0
        self._orders: Mapping[str, Callable[[Sequence[HostKey]], Iterable[HostKey]]] = {
            "prioritized": self._prioritized,
            "round-robin": self._round_robin,
            "weighted": _weighted,
            "least-recently-used": self._least_recently_used,
            "least-in-flight": self._least_in_flight,
        }

    def state(self, key_id: str) -> KeyState:
        """The state of a key; a new one is healthy."""
        state = self._states.get(key_id)
        if state is None:
            state = self._states[key_id] = KeyState()
        return state

    def order(self, keys: Sequence[HostKey], strategy: str) -> Iterable[HostKey]:
        """The healthy keys of a pool in the order in which they should be tried."""
        now = self._clock.monotonic()
        if len(keys) == 1:
            return keys if self.state(keys[0].id).benched_until <= now else ()
        healthy = [key for key in keys if self.state(key.id).benched_until <= now]
        return healthy if len(healthy) < 2 else self._orders[strategy](healthy)

    def bench(self, key_id: str, reason: str, seconds: float | None = None) -> None:
        """Leaves a key out for ``seconds``, or for 1 to 60 s that double with each strike.

        A bench is never shortened by a later, shorter one.
        """
        state = self.state(key_id)
        if seconds is None:
            seconds = min(MAX_BENCH, MIN_BENCH * 2**state.strikes)
        seconds = min(MAX_RETRY_AFTER, max(MIN_BENCH, seconds)) * random.uniform(1.0, 1.1)  # noqa: S311 - jitter
        state.strikes += 1
        state.reason = reason
        state.benched_until = max(state.benched_until, self._clock.monotonic() + seconds)

    def draw(self, key_id: str, now: float) -> KeyState:
        """Counts a key as in use, until one is taken off its ``in_flight`` again."""
        state = self.state(key_id)
        state.in_flight += 1
        state.last_used = now
        return state

    def reset(self, key_id: str) -> None:
        """Puts a key back into its pool as if it had never failed."""
        self.state(key_id).recover()

    def shortest_wait(self, keys: Iterable[HostKey]) -> float:
        """Seconds until the first of ``keys`` is back."""
        now = self._clock.monotonic()
        return max(1.0, min((self.state(key.id).benched_until - now for key in keys), default=60.0))

    def describe(self, key_id: str) -> dict[str, object]:
        """The state of a key as the control plane shows it."""
        state = self._states.get(key_id) or KeyState()
        left = state.benched_until - self._clock.monotonic()
        benched = left > 0
        return {
            "state": "benched" if benched else "available",
            "reason": state.reason if benched else None,
            "secondsLeft": round(left, 1) if benched else None,
            "inFlight": state.in_flight,
        }

    def _prioritized(self, keys: Sequence[HostKey]) -> Iterable[HostKey]:
        return sorted(keys, key=lambda key: key.priority)

    def _round_robin(self, keys: Sequence[HostKey]) -> Iterable[HostKey]:
        self._turn += 1
        start = self._turn % len(keys)
        return [*keys[start:], *keys[:start]]

    def _least_recently_used(self, keys: Sequence[HostKey]) -> Iterable[HostKey]:
        return sorted(keys, key=lambda key: self.state(key.id).last_used)

    def _least_in_flight(self, keys: Sequence[HostKey]) -> Iterable[HostKey]:
        return sorted(keys, key=lambda key: self.state(key.id).in_flight)


def _weighted(keys: Sequence[HostKey]) -> Iterable[HostKey]:
    # Efraimidis and Spirakis: the largest u^(1/w) first is a draw by weight without replacement.
    drawn = [(random.random() ** (1 / key.weight) if key.weight else -1.0) for key in keys]  # noqa: S311
    return [key for _, key in sorted(zip(drawn, keys, strict=True), key=lambda pair: -pair[0])]
