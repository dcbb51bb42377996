"""The arithmetic of limits as ``docs/explanation/limits.md`` has it, as plain as it can be written.

State stores are compared with it. It keeps every claim for ever and sums them up anew each time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from relay_gateway.plugin import Clock, Grant, Hold

SLICES = 10


@dataclass(slots=True)
class Claim:
    """One thing that was counted: ``amount`` at the moment ``at``. ``lowest`` is the lowest debt
    that a bucket had since then."""

    amount: float
    at: float
    lowest: float = math.inf


@dataclass(slots=True)
class Counter:
    """All that was ever counted under one key; ``begun`` is when the last session began, and
    ``debt`` that of a bucket at the moment ``at``."""

    claims: list[Claim] = field(default_factory=list)
    begun: float = -math.inf
    debt: float = 0.0
    at: float = 0.0

    def owe(self, debt: float) -> None:
        """Sets the debt of a bucket."""
        self.debt = debt
        for claim in self.claims:
            claim.lowest = min(claim.lowest, debt)


@dataclass(frozen=True, slots=True)
class Figures:
    """What a strategy says about a counter before a claim."""

    counted: float
    retry_after: float
    reset: float


class ReferenceLimits:
    """Reservations and settlements with the time of ``clock``. Keeps everything for ever."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._counters: dict[str, Counter] = {}
        self._taken: dict[str, list[Claim]] = {}

    def reserve(self, request_id: str, holds: Sequence[Hold]) -> Grant:
        """As :meth:`relay_gateway.plugin.StateStore.reserve`."""
        now = self._clock.time()
        before = [self._figures(hold, now) for hold in holds]
        misfits: list[int] = []
        if request_id in self._taken:
            self._renew(self._taken[request_id], holds, now)
        else:
            misfits = [
                index
                for index, (hold, figures) in enumerate(zip(holds, before, strict=True))
                if figures.counted + hold.amount > hold.limit
            ]
        refused = next((index for index in misfits if not holds[index].shadow), -1)
        if refused < 0 and request_id not in self._taken:
            self._taken[request_id] = [self._take(hold, hold.amount, now) for hold in holds]
        after = [self._figures(hold, now) for hold in holds]
        left = zip(holds, after, strict=True)
        return Grant(
            refused=refused,
            retry_after=0.0 if refused < 0 else before[refused].retry_after,
            remaining=tuple(max(0, math.floor(one.limit - seen.counted)) for one, seen in left),
            reset=tuple(figures.reset for figures in after),
            exceeded=tuple(misfits) if refused < 0 else (),
        )

    def settle(self, request_id: str, holds: Sequence[Hold], used: Sequence[int]) -> None:
        """As :meth:`relay_gateway.plugin.StateStore.settle`."""
        now = self._clock.time()
        claims = self._taken.pop(request_id, None)
        if claims is None:
            return
        for hold, claim, amount in zip(holds, claims, used, strict=True):
            if hold.strategy == "gauge":
                claim.amount = 0
            elif amount > hold.amount:
                self._take(hold, amount - hold.amount, now)
            elif hold.strategy == "token-bucket":
                counter = self._drained(hold, now)
                counter.owe(counter.debt - min(hold.amount - amount, claim.lowest))
            else:
                claim.amount = amount

    def _take(self, hold: Hold, amount: int, now: float) -> Claim:
        counter = self._drained(hold, now)
        claim = Claim(amount, now)
        if hold.strategy == "session-window" and now >= counter.begun + hold.window:
            counter.begun = now
        if hold.strategy == "token-bucket":
            counter.debt += amount
            claim.lowest = counter.debt
        counter.claims.append(claim)
        return claim

    def _renew(self, claims: Sequence[Claim], holds: Sequence[Hold], now: float) -> None:
        for claim, hold in zip(claims, holds, strict=True):
            if hold.strategy == "gauge" and claim.at + hold.window > now:
                claim.at = now

    def _drained(self, hold: Hold, now: float) -> Counter:
        counter = self._counters.setdefault(hold.key, Counter(at=now))
        if hold.strategy == "token-bucket":
            gone = min(counter.debt, (now - counter.at) * (hold.limit / hold.window))
            counter.owe(counter.debt - gone)
            counter.at = now
        return counter

    def _figures(self, hold: Hold, now: float) -> Figures:
        counter = self._drained(hold, now)
        figures = {
            "token-bucket": _bucket,
            "sliding-window": _sliding,
            "fixed-window": _fixed,
            "session-window": _session,
            "gauge": _gauge,
        }[hold.strategy](counter, hold, now)
        if hold.amount > hold.limit:
            return Figures(figures.counted, hold.window, figures.reset)
        return figures


def _bucket(counter: Counter, hold: Hold, _now: float) -> Figures:
    rate = hold.limit / hold.window
    missing = counter.debt + hold.amount - hold.limit
    return Figures(counter.debt, missing / rate, counter.debt / rate)


def _sliding(counter: Counter, hold: Hold, now: float) -> Figures:
    width = hold.window / SLICES
    current = math.floor(now / width)
    counts = {
        number: sum(one.amount for one in counter.claims if math.floor(one.at / width) == number)
        for number in range(current - SLICES, current + 1)
    }
    ends = {number: (number + SLICES + 1) * width - now for number in counts}
    left = counted = sum(counts.values())
    retry_after = 0.0
    for number, count in counts.items():
        left -= count
        if left + hold.amount <= hold.limit:
            retry_after = ends[number]
            break
    return Figures(
        counted, retry_after, max((ends[one] for one, count in counts.items() if count), default=0)
    )


def _fixed(counter: Counter, hold: Hold, now: float) -> Figures:
    index = math.floor(now / hold.window)
    counted = sum(one.amount for one in counter.claims if math.floor(one.at / hold.window) == index)
    end = (index + 1) * hold.window - now
    return Figures(counted, end, end)


def _session(counter: Counter, hold: Hold, now: float) -> Figures:
    if now >= counter.begun + hold.window:
        return Figures(0, hold.window, hold.window)
    counted = sum(one.amount for one in counter.claims if one.at >= counter.begun)
    end = counter.begun + hold.window - now
    return Figures(counted, end, end)


def _gauge(counter: Counter, hold: Hold, now: float) -> Figures:
    held = [one for one in counter.claims if one.amount and one.at + hold.window > now]
    ends = [min(1.0, one.at + hold.window - now) for one in held]
    return Figures(sum(one.amount for one in held), min(ends, default=1.0), 1.0 if held else 0.0)
