"""The strategies: what one counter has counted, as a row of numbers in memory or in a shared table.

The arithmetic is that of ``docs/explanation/limits.md``. Cells are written in an order in which a
process that dies between two of them leaves a counter that is fuller than it should be, never
emptier. Times are seconds of the monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence
from typing import ClassVar

from relay_gateway.plugin.state import Hold, Strategy

Cells = MutableSequence[float]
Mark = float
"""Where a claim was counted, for the correction that follows."""
Figures = tuple[int, float]
"""What is left of the limit, and the seconds until all of it is there again."""

LEVELS = 8
"""How many levels of debt a token bucket remembers."""
SLICES = 10
"""Into how many slices a sliding window is cut."""
RING = SLICES + 1
"""How many of them are counted."""


class Counter:
    """One counter of one strategy. ``cells`` are all zero when it is new; ``until`` is when it
    counts for nothing any more."""

    __slots__ = ("cells", "strategy", "until")

    kind: ClassVar[Strategy]
    width: ClassVar[int]
    """How many cells it has."""

    def __init__(self, cells: Cells, now: float) -> None:
        self.cells = cells
        # On the instance, too, where it is read with every claim.
        self.strategy = self.kind
        self.until = now

    def fits(self, now: float, hold: Hold) -> bool:
        """Whether ``hold`` can be claimed. Brings the counter up to ``now``."""
        raise NotImplementedError

    def take(self, now: float, hold: Hold) -> Mark:
        """Claims ``hold``, right after :meth:`fits`, whatever that said."""
        raise NotImplementedError

    def give_back(self, now: float, back: int, hold: Hold, mark: Mark) -> None:
        """Takes ``back`` of a claim out again, as far as it still counts; 0 at a gauge, which gives
        back all of it, and more than 0 elsewhere."""
        raise NotImplementedError

    def add(self, now: float, amount: int, hold: Hold) -> None:
        """Counts ``amount`` that was used beyond a claim."""
        raise NotImplementedError

    def renew(self, now: float, window: float, mark: Mark) -> None:
        """Begins the lease of a claim anew, where claims have one."""

    def wait(self, now: float, hold: Hold) -> float:
        """Seconds until a ``hold`` fits that does not fit now, as :meth:`fits` just said."""
        raise NotImplementedError

    def figures(self, now: float, hold: Hold) -> Figures:
        """What is left, right after :meth:`fits` or :meth:`take`."""
        raise NotImplementedError


class TokenBucket(Counter):
    """Cells: debt, at, number of the last claim, how many levels; then the levels, each the number
    of a claim and the lowest debt since that claim. The last level's is that of the last claim."""

    __slots__ = ()
    kind = "token-bucket"
    width = 4 + 2 * LEVELS

    def fits(self, now: float, hold: Hold) -> bool:
        cells, limit = self.cells, hold.limit
        debt = cells[0]
        if debt:
            gone = (now - cells[1]) * limit / hold.window
            debt = debt - gone if gone < debt else 0.0
            cells[1] = now
            if cells[3]:
                self._lower(debt)
            cells[0] = debt
        return debt + hold.amount <= limit

    def take(self, now: float, hold: Hold) -> Mark:
        cells, amount, number = self.cells, hold.amount, now * 1e6
        debt, last = cells[0], cells[2]
        if not debt:
            cells[1] = now
        if number <= last:
            number = last + 1.0
        cells[2] = number
        cells[0] = debt = debt + amount
        levels = int(cells[3])
        end = levels + levels + 4
        if levels and cells[end - 1] >= amount:
            cells[end - 2] = number
        elif levels < LEVELS:
            cells[end + 1] = debt
            cells[end] = number
            cells[3] = levels + 1
        else:
            self._replace_first(number, debt)
        return number

    def give_back(self, now: float, back: int, hold: Hold, mark: Mark) -> None:
        cells, place = self.cells, 4
        debt, end = cells[0], 2.0 * cells[3] + 4.0
        gone = (now - cells[1]) * hold.limit / hold.window
        debt = debt - gone if gone < debt else 0.0
        while place < end:
            if cells[place] >= mark:
                level = cells[place + 1]
                level = min(level, debt)
                debt -= min(back, level)
                cells[1] = now
                self._lower(debt)
                cells[0] = debt
                return
            place += 2

    def add(self, now: float, amount: int, hold: Hold) -> None:
        self.fits(now, hold)
        if not self.cells[0]:
            self.cells[1] = now
        self.cells[0] += amount

    def wait(self, now: float, hold: Hold) -> float:
        return (self.cells[0] + hold.amount - hold.limit) * hold.window / hold.limit

    def figures(self, now: float, hold: Hold) -> Figures:
        debt, limit = self.cells[0], hold.limit
        return (int(limit - debt) if debt < limit else 0), debt * hold.window / limit

    def _lower(self, debt: float) -> None:
        """The debt is this low now: what was as high or higher since some claim becomes one level,
        that of the last claim. It is kept even where it is 0, or the level of a later claim would
        be taken for an older one's."""
        cells = self.cells
        last = place = 2 * int(cells[3]) + 3
        while place > 3 and cells[place] >= debt:
            place -= 2
        if place < last:
            cells[place + 1] = cells[2]
            cells[place + 2] = debt
            cells[3] = (place - 1) // 2

    def _replace_first(self, number: float, debt: float) -> None:
        """Adds a level where there are as many as there can be: the next takes over the first."""
        cells, end = self.cells, 4 + 2 * LEVELS
        cells[7] = cells[5]
        cells[4 : end - 2] = cells[6:end]
        cells[end - 2] = number
        cells[end - 1] = debt


class SlidingWindow(Counter):
    """Cells: newest slice, length of the window, the sum of the counts, then the counts of the
    slices in a ring. The sum is never below what the slices say; each new slice makes it anew."""

    __slots__ = ()
    kind = "sliding-window"
    width = SLICES + 4

    def fits(self, now: float, hold: Hold) -> bool:
        cells, window = self.cells, hold.window
        if now * SLICES / window // 1.0 != cells[0] or cells[1] != window:
            self._advance(now, window)
        return cells[2] + hold.amount <= hold.limit

    def take(self, now: float, hold: Hold) -> Mark:
        cells, amount = self.cells, hold.amount
        newest = cells[0]
        cells[2] += amount
        cells[3 + int(newest) % RING] += amount
        return newest

    def give_back(self, now: float, back: int, hold: Hold, mark: Mark) -> None:
        self.fits(now, hold)
        cells = self.cells
        if mark >= cells[0] - SLICES:
            place = 3 + int(mark) % RING
            count = cells[place]
            left = count - back if back < count else 0.0
            cells[place] = left
            cells[2] -= count - left

    def add(self, now: float, amount: int, hold: Hold) -> None:
        self.fits(now, hold)
        cells = self.cells
        cells[2] += amount
        cells[3 + int(cells[0]) % RING] += amount

    def wait(self, now: float, hold: Hold) -> float:
        cells, amount, limit = self.cells, hold.amount, hold.limit
        newest = int(cells[0])
        counted, one = cells[2], newest - SLICES
        while one < newest:
            counted -= cells[3 + one % RING]
            if counted + amount <= limit:
                break
            one += 1
        return (one + RING) * hold.window / SLICES - now

    def figures(self, now: float, hold: Hold) -> Figures:
        cells = self.cells
        counted = cells[2]
        newest = last = int(cells[0])
        while last > newest - SLICES and not cells[3 + last % RING]:
            last -= 1
        reset = (last + RING) * hold.window / SLICES - now if counted else 0.0
        return (int(hold.limit - counted) if counted < hold.limit else 0), reset

    def _advance(self, now: float, window: float) -> None:
        """Empties the slices that have begun since the last look."""
        cells = self.cells
        now_slice = int(now * SLICES / window)
        first = int(cells[0]) + 1 if cells[1] == window else 0
        for one in range(max(first, now_slice - SLICES), now_slice + 1):
            cells[3 + one % RING] = 0.0
        cells[1] = window
        cells[0] = now_slice
        cells[2] = sum(cells[3:])


class FixedWindow(Counter):
    """Cells: end of the window, count. Windows begin at whole multiples of their length."""

    __slots__ = ()
    kind = "fixed-window"
    width = 2

    def fits(self, now: float, hold: Hold) -> bool:
        cells, window = self.cells, hold.window
        end = (now / window // 1.0 + 1.0) * window
        if cells[0] != end:
            cells[1] = 0.0
            cells[0] = end
        return cells[1] + hold.amount <= hold.limit

    def take(self, now: float, hold: Hold) -> Mark:
        cells = self.cells
        cells[1] += hold.amount
        return cells[0]

    def give_back(self, now: float, back: int, hold: Hold, mark: Mark) -> None:
        cells = self.cells
        if now < mark == cells[0]:
            cells[1] = max(0.0, cells[1] - back)

    def add(self, now: float, amount: int, hold: Hold) -> None:
        self.fits(now, hold)
        self.cells[1] += amount

    def wait(self, now: float, hold: Hold) -> float:
        return self.cells[0] - now

    def figures(self, now: float, hold: Hold) -> Figures:
        end, count = self.cells
        return (int(hold.limit - count) if count < hold.limit else 0), end - now


class SessionWindow(Counter):
    """Cells: begin of the window, count. A window begins with the first claim."""

    __slots__ = ()
    kind = "session-window"
    width = 2

    def fits(self, now: float, hold: Hold) -> bool:
        cells = self.cells
        count = cells[1]
        if count and now >= cells[0] + hold.window:
            cells[1] = count = 0.0
        return count + hold.amount <= hold.limit

    def take(self, now: float, hold: Hold) -> Mark:
        return self._count(now, hold.amount, hold.window)

    def give_back(self, now: float, back: int, hold: Hold, mark: Mark) -> None:
        cells = self.cells
        if cells[0] == mark and now < mark + hold.window:
            cells[1] = max(0.0, cells[1] - back)

    def add(self, now: float, amount: int, hold: Hold) -> None:
        self.fits(now, hold)
        self._count(now, amount, hold.window)

    def wait(self, now: float, hold: Hold) -> float:
        return self.cells[0] + hold.window - now

    def figures(self, now: float, hold: Hold) -> Figures:
        begun, count = self.cells
        window, limit = hold.window, hold.limit
        reset = begun + window - now if begun and now < begun + window else window
        return (int(limit - count) if count < limit else 0), reset

    def _count(self, now: float, amount: int, window: float) -> Mark:
        cells = self.cells
        if now >= cells[0] + window or not cells[0]:
            cells[0] = now
        cells[1] += amount
        return cells[0]


WINDOWED: Mapping[str, type[Counter]] = {
    one.kind: one for one in (TokenBucket, SlidingWindow, FixedWindow, SessionWindow)
}
"""Strategies that count within a window; a gauge counts who holds what."""
WIDEST = max(kind.width for kind in WINDOWED.values())
