"""How late the event loop is: what blocks it delays every request of the process."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator

from relay_gateway.observe import families
from relay_gateway.observe.histogram import Histogram
from relay_gateway.observe.series import Series, series_of

INTERVAL_SECONDS = 0.25
STALL_SECONDS = 1.0
"""A timer that is later than this means that the process stood still."""


class LoopLag:
    """A timer that notes by how much it came late."""

    def __init__(self) -> None:
        self._histogram = Histogram(families.LOOP_LAG)
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._due = 0.0
        self._stalled_at = float("-inf")

    def start(self) -> None:
        """Begins to measure the running loop."""
        self._due = time.monotonic() + INTERVAL_SECONDS
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(INTERVAL_SECONDS, self._tick)

    def stop(self) -> None:
        """Measures no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    @property
    def due(self) -> float | None:
        """When the timer was to come, by the monotonic clock; ``None`` while nothing is measured.
        Any thread may ask."""
        return self._due if self._timer is not None else None

    def stood_still(self, began: float, now: float) -> bool:
        """Whether the process did not run for a while between two times of the monotonic clock, up
        to now: it was stopped, or something blocked its event loop."""
        if self._timer is not None and now - self._due > STALL_SECONDS:
            return True  # what else is late is found before the timer is
        return began < self._stalled_at

    def series(self) -> Iterator[Series]:
        """What was measured so far, and how much the loop has to do."""
        yield self._histogram.series()
        if self._loop is not None:
            yield series_of(families.LOOP_TASKS, len(asyncio.all_tasks(self._loop)))

    def _tick(self) -> None:
        # The clock of the loop may be coarser than what is measured, and a timer early by that.
        now = time.monotonic()
        self._histogram.observe(max(0.0, now - self._due) * 1000)
        if now - self._due > STALL_SECONDS:
            self._stalled_at = now
        self.start()
