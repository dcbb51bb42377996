"""The gauge of several processes: each keeps its own leases, and tells the others their sum."""

from __future__ import annotations

from collections.abc import Callable

from relay_gateway.limits.counters import Cells, Figures, Mark
from relay_gateway.limits.gauge import RETRY_SECONDS, Gauge
from relay_gateway.plugin.state import Hold

GENERATION = float(1 << 20)
"""Step from one generation of a row to the next: more than a process can hold."""


class SharedGauge(Gauge):
    """What all processes hold right now. Each has two cells: the generation of its row plus what it
    holds, and when the last of its leases ends, after which the first one counts no more.

    ``reap`` makes the cells of ended processes void, and says whether there were any.
    """

    __slots__ = ("_generations", "_last", "_others", "_reap", "_row")

    def __init__(self, now: float, generations: Cells, row: int, reap: Callable[[], bool]) -> None:
        super().__init__(now)
        self._generations = generations
        self._row = row
        self._reap = reap
        self._last = now
        self._others = 0

    @property
    def is_held(self) -> bool:
        """Whether this process holds any of it."""
        return bool(self._holders)

    def move(self, cells: Cells) -> None:
        """These are the cells from now on."""
        self.cells = cells
        self._tell()

    def fits(self, now: float, hold: Hold) -> bool:
        amount, limit = hold.amount, hold.limit
        if now >= self._ends:
            self._expire(now)
        self._others = self._sum_of_others(now)
        if self._held + self._others + amount <= limit:
            return True
        if self._others and self._reap():
            self._others = self._sum_of_others(now)
        return self._held + self._others + amount <= limit

    def take(self, now: float, hold: Hold) -> Mark:
        mark = super().take(now, hold)
        self._last = max(self._last, now + hold.window)
        self._tell()
        return mark

    def give_back(self, now: float, back: int, hold: Hold, mark: Mark) -> None:
        super().give_back(now, back, hold, mark)
        self._tell()

    def renew(self, now: float, window: float, mark: Mark) -> None:
        super().renew(now, window, mark)
        self._last = max(self._last, now + window)
        self._tell()

    def wait(self, now: float, hold: Hold) -> float:
        if not self._holders:
            return RETRY_SECONDS
        return super().wait(now, hold)

    def figures(self, now: float, hold: Hold) -> Figures:
        held, limit = self._held + self._others, hold.limit
        return (limit - held if held < limit else 0), RETRY_SECONDS if held else 0.0

    def _expire(self, now: float) -> None:
        if self._holders:
            super()._expire(now)
            self._last = max((end for _, end in self._holders.values()), default=now)
            self._tell()

    def _tell(self) -> None:
        """Writes down what this process holds."""
        cells, row = self.cells, self._row
        cells[row + len(self._generations)] = self._last
        cells[row] = self._generations[row] + self._held

    def _sum_of_others(self, now: float) -> int:
        own, rows, held = self._row, len(self._generations), 0.0
        cells = self.cells
        for row, generation in enumerate(self._generations):
            amount = cells[row] - generation
            if 0 < amount < GENERATION and row != own and cells[rows + row] > now:
                held += amount
        return int(held)
