"""A clock that only moves when a test says so."""

from __future__ import annotations

DEFAULT_TIME = 1_767_225_600.0
"""2026-01-01T00:00:00Z."""


class FakeClock:
    """A :class:`relay_gateway.plugin.Clock`. Both readings move together, unless one is set apart.

    ``now`` is in seconds since the epoch; the monotonic reading begins at 1000 s, so code that
    confuses the two is off by decades.
    """

    def __init__(self, now: float = DEFAULT_TIME) -> None:
        self._time = now
        self._monotonic = 1000.0

    def monotonic(self) -> float:
        """Seconds that never step back."""
        return self._monotonic

    def time(self) -> float:
        """Seconds since the epoch."""
        return self._time

    def advance(self, seconds: float) -> None:
        """Lets time pass. Raises ``ValueError`` for a negative amount: see :meth:`set_time`."""
        if seconds < 0:
            raise ValueError(f"time does not pass backwards ({seconds} s): use set_time for a step")
        self._time += seconds
        self._monotonic += seconds

    def set_time(self, now: float) -> None:
        """Steps the wall clock, as an administrator or NTP would; the monotonic reading stays."""
        self._time = now
