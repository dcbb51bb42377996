"""A histogram of durations that costs the request path a bisection and two additions."""

from __future__ import annotations

from bisect import bisect_left

from relay_gateway.observe.families import Family
from relay_gateway.observe.series import Series


class Histogram:
    """Counts milliseconds in the buckets of its family."""

    __slots__ = ("_family", "bounds", "counts", "total")

    def __init__(self, family: Family) -> None:
        self._family = family
        self.bounds = family.bounds_ms
        self.counts = [0] * (len(family.bounds_ms) + 1)
        self.total = 0.0

    def observe(self, milliseconds: float) -> None:
        """Counts one duration; one that is equal to a bound is below it."""
        self.counts[bisect_left(self.bounds, milliseconds)] += 1
        self.total += milliseconds

    def series(self, *labels: str) -> Series:
        """What was counted so far."""
        return Series(self._family.name, labels, self.total / 1000, tuple(self.counts))
