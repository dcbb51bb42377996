"""What stores that wait for nothing have in common: reserving and settling against counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from relay_gateway.limits.counters import Counter, Mark
from relay_gateway.plugin.base import PluginConfig
from relay_gateway.plugin.context import PluginContext
from relay_gateway.plugin.state import Grant, Hold, StateStore

_MANY = 4096


_Claim = tuple[Sequence[Hold], list[Counter], list[Mark], float]
"""What one request holds, and since when: a bare tuple, as one is made per request."""


class ImmediateStore(StateStore[PluginConfig]):
    """Judges and takes in one go; whoever implements it knows where counters are."""

    immediate = True
    moves: ClassVar[bool] = False
    """Whether the place of a counter can become that of another."""

    def __init__(self, config: PluginConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self._monotonic = context.clock.monotonic
        # Windows are aligned as the wall clock stood at the start, and its jumps change nothing.
        self._offset = context.clock.time() - context.clock.monotonic()
        self._claims: dict[str, _Claim] = {}
        self._purge_at = _MANY

    def counters(self, holds: Sequence[Hold], now: float) -> list[Counter]:
        """The counter of each of ``holds``, a new one where there is none of its strategy."""
        raise NotImplementedError

    def still_counts(self, hold: Hold, counter: Counter, now: float) -> bool:
        """Whether ``counter`` is still the one of ``hold``; asked only where counters can move."""
        return True

    async def reserve(self, request_id: str, holds: Sequence[Hold]) -> Grant:
        """As :meth:`reserve_now`."""
        return self.reserve_now(request_id, holds)

    async def settle(self, request_id: str, holds: Sequence[Hold], used: Sequence[int]) -> None:
        """As :meth:`settle_now`."""
        self.settle_now(request_id, holds, used)

    def reserve_now(self, request_id: str, holds: Sequence[Hold]) -> Grant:
        """Takes all ``holds`` or none."""
        now = self._monotonic() + self._offset
        claims = self._claims
        if request_id in claims:
            return self._repeat(request_id, now)
        counters = self.counters(holds, now)
        exceeded: tuple[int, ...] = ()
        for index, hold in enumerate(holds):
            if not counters[index].fits(now, hold):
                if not hold.shadow:
                    return _refusal(holds, counters, index, now)
                exceeded += (index,)
        if len(claims) >= self._purge_at:
            self._purge(now)
        marks: list[Mark] = []
        remaining: list[int] = []
        reset: list[float] = []
        for index, hold in enumerate(holds):
            counter, window = counters[index], hold.window
            marks.append(counter.take(now, hold))
            counter.until = now + window + window
            left, whole = counter.figures(now, hold)
            remaining.append(left)
            reset.append(whole)
        claims[request_id] = (holds, counters, marks, now)
        return Grant(-1, 0.0, tuple(remaining), tuple(reset), exceeded)

    def settle_now(self, request_id: str, holds: Sequence[Hold], used: Sequence[int]) -> None:
        """Corrects each hold of the reservation to what was ``used``."""
        claim = self._claims.pop(request_id, None)
        if claim is None:
            return
        holds, counters, marks, _ = claim
        now = self._monotonic() + self._offset
        for index, hold in enumerate(holds):
            back = hold.amount if hold.strategy == "gauge" else hold.amount - used[index]
            if back > 0:
                counter = counters[index]
                if not self.moves or self.still_counts(hold, counter, now):
                    counter.give_back(now, back, hold, marks[index])
            elif back:
                (counter,) = self.counters((hold,), now)
                counter.add(now, -back, hold)
                counter.until = now + 2 * hold.window

    def _repeat(self, request_id: str, now: float) -> Grant:
        holds, taken, marks, _ = self._claims[request_id]
        for hold, counter, mark in zip(holds, taken, marks, strict=True):
            if not self.moves or self.still_counts(hold, counter, now):
                counter.renew(now, hold.window, mark)
        counters = self.counters(holds, now)
        self._claims[request_id] = (holds, taken, marks, now)
        return Grant(-1, 0.0, *_figures(holds, counters, now))

    def _purge(self, now: float) -> None:
        """Lets go of claims that nobody gave back in time."""
        for request_id, (holds, _, _, at) in list(self._claims.items()):
            if at + 2 * max((hold.window for hold in holds), default=0.0) <= now:
                del self._claims[request_id]
        self._purge_at = max(_MANY, 2 * len(self._claims))


def _refusal(holds: Sequence[Hold], counters: Sequence[Counter], refused: int, now: float) -> Grant:
    """There is no room for one of the holds."""
    hold = holds[refused]
    wait = hold.window if hold.amount > hold.limit else counters[refused].wait(now, hold)
    return Grant(refused, max(0.0, wait), *_figures(holds, counters, now))


def _figures(
    holds: Sequence[Hold], counters: Sequence[Counter], now: float
) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """What is left of each, and when all of it is there again."""
    figures = []
    for hold, counter in zip(holds, counters, strict=True):
        counter.fits(now, hold)
        figures.append(counter.figures(now, hold))
    return tuple(left for left, _ in figures), tuple(whole for _, whole in figures)
