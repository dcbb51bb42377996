"""The gauge of one process: who holds how much, and until when."""

from __future__ import annotations

from relay_gateway.limits.counters import Counter, Figures, Mark
from relay_gateway.plugin.state import Hold

RETRY_SECONDS = 1.0
"""After how long to ask again at most: nobody knows when a request ends."""


class Gauge(Counter):
    """What is held right now. A claim's mark is its number; each has a lease."""

    __slots__ = ("_ends", "_held", "_holders", "_number")
    kind = "gauge"
    width = 0

    def __init__(self, now: float) -> None:
        super().__init__([], now)
        self._holders: dict[float, tuple[int, float]] = {}
        self._held = 0
        self._number = 0.0
        self._ends = now
        """No lease ends earlier than that."""

    def fits(self, now: float, hold: Hold) -> bool:
        if now >= self._ends:
            self._expire(now)
        return self._held + hold.amount <= hold.limit

    def take(self, now: float, hold: Hold) -> Mark:
        self._number = number = self._number + 1.0
        amount, end = hold.amount, now + hold.window
        if not self._holders or end < self._ends:
            self._ends = end
        self._holders[number] = (amount, end)
        self._held += amount
        return number

    def give_back(self, now: float, back: int, hold: Hold, mark: Mark) -> None:
        holder = self._holders.pop(mark, None)
        if holder is not None:
            self._held -= holder[0]

    def renew(self, now: float, window: float, mark: Mark) -> None:
        held = self._holders.get(mark)
        # A lease that has ended does not begin anew: what it held may be another one's by now.
        if held is not None and held[1] > now:
            self._holders[mark] = (held[0], now + window)
            self.until = max(self.until, now + 2 * window)

    def wait(self, now: float, hold: Hold) -> float:
        return min(RETRY_SECONDS, max(0.0, self._ends - now))

    def figures(self, now: float, hold: Hold) -> Figures:
        held, limit = self._held, hold.limit
        return (limit - held if held < limit else 0), RETRY_SECONDS if held else 0.0

    def _expire(self, now: float) -> None:
        if not self._holders:
            return
        ended = [number for number, (_, end) in self._holders.items() if end <= now]
        for number in ended:
            self._held -= self._holders.pop(number)[0]
        self._ends = min((end for _, end in self._holders.values()), default=now)
