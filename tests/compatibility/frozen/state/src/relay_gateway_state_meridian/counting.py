"""The arithmetic of the five strategies, written plainly: a counter keeps its claims and sums up.

The gateway's documentation has it in `docs/explanation/limits.md`. A store that instances share
moves this into the shared place, where one call judges and takes in one step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from relay_gateway.plugin import Hold

SLICES = 10
"""Into how many slices a sliding window is cut."""
RETRY_SECONDS = 1.0
"""After how long to ask again at most for what is held: nobody knows when a request ends."""


@dataclass(slots=True)
class Claim:
    """What one request claimed. ``ends`` is when a lease does, ``lowest`` the lowest debt of a
    bucket since then."""

    amount: float
    at: float
    ends: float
    lowest: float = math.inf


@dataclass(frozen=True, slots=True)
class Figures:
    """What is counted, after how many seconds the claim would fit, and all would be free."""

    counted: float
    wait: float
    reset: float


@dataclass(slots=True)
class Counter:
    """What is counted under one key; ``debt`` at the moment ``at`` is that of a bucket."""

    claims: list[Claim] = field(default_factory=list)
    begun: float = -math.inf
    debt: float = 0.0
    at: float = 0.0
    until: float = 0.0

    def look(self, hold: Hold, now: float) -> Figures:
        """What ``hold`` meets at the moment ``now``."""
        self._age(hold, now)
        if hold.strategy == "token-bucket":
            rate = hold.limit / hold.window
            missing = self.debt + hold.amount - hold.limit
            figures = Figures(self.debt, missing / rate, self.debt / rate)
        elif hold.strategy == "sliding-window":
            figures = self._sliding(hold, now)
        elif hold.strategy == "gauge":
            ends = [min(RETRY_SECONDS, one.ends - now) for one in self.claims]
            held = sum(one.amount for one in self.claims)
            figures = Figures(held, min(ends, default=1.0), RETRY_SECONDS if held else 0.0)
        else:
            end = self._end(hold, now) - now
            figures = Figures(sum(one.amount for one in self.claims), end, end)
        # No time makes room for more than the limit.
        wait = hold.window if hold.amount > hold.limit else figures.wait
        return Figures(figures.counted, max(0.0, wait), figures.reset)

    def take(self, hold: Hold, amount: int, now: float) -> Claim:
        """Counts ``amount``, right after :meth:`look`."""
        claim = Claim(amount, now, now + hold.window)
        if hold.strategy == "session-window" and now >= self.begun + hold.window:
            self.begun = now
        if hold.strategy == "token-bucket":
            self.debt += amount
            claim.lowest = self.debt
        self.claims.append(claim)
        self.until = now + 2 * hold.window
        return claim

    def correct(self, hold: Hold, claim: Claim, used: int, now: float) -> None:
        """Counts what was ``used`` in place of what was claimed."""
        self._age(hold, now)
        if hold.strategy == "gauge":
            claim.amount = 0
            self.claims = [one for one in self.claims if one is not claim]
        elif used > hold.amount:
            self.take(hold, used - hold.amount, now)
        elif hold.strategy == "token-bucket":
            # What has drained away meanwhile is not given back a second time.
            self._owe(self.debt - min(hold.amount - used, claim.lowest))
        else:
            claim.amount = used

    def renew(self, hold: Hold, claim: Claim, now: float) -> None:
        """Begins the lease of a claim anew, where it has not ended."""
        if hold.strategy == "gauge" and claim.ends > now:
            claim.ends = now + hold.window
            self.until = now + 2 * hold.window

    def _age(self, hold: Hold, now: float) -> None:
        """Lets go of what counts for nothing any more."""
        if hold.strategy == "token-bucket":
            self._owe(max(0.0, self.debt - (now - self.at) * (hold.limit / hold.window)))
            self.at = now
            self.claims = [one for one in self.claims if now < one.at + 2 * hold.window]
        elif hold.strategy == "fixed-window":
            index = math.floor(now / hold.window)
            self.claims = [o for o in self.claims if math.floor(o.at / hold.window) == index]
        elif hold.strategy == "gauge":
            self.claims = [one for one in self.claims if one.ends > now]
        elif hold.strategy == "session-window":
            self.claims = self.claims if now < self.begun + hold.window else []
        else:
            self.claims = [one for one in self.claims if now < one.at + 2 * hold.window]

    def _owe(self, debt: float) -> None:
        self.debt = debt
        for claim in self.claims:
            claim.lowest = min(claim.lowest, debt)

    def _end(self, hold: Hold, now: float) -> float:
        if hold.strategy == "fixed-window":
            return (math.floor(now / hold.window) + 1) * hold.window
        return (self.begun if now < self.begun + hold.window else now) + hold.window

    def _sliding(self, hold: Hold, now: float) -> Figures:
        width = hold.window / SLICES
        current = math.floor(now / width)
        counts = dict.fromkeys(range(current - SLICES, current + 1), 0.0)
        for one in self.claims:
            number = math.floor(one.at / width)
            if number in counts:
                counts[number] += one.amount
        left = counted = sum(counts.values())
        wait, reset = None, 0.0
        for number, count in counts.items():
            end = (number + SLICES + 1) * width - now
            left -= count
            if wait is None and left + hold.amount <= hold.limit:
                wait = end
            reset = end if count else reset
        return Figures(counted, wait or 0.0, reset)
