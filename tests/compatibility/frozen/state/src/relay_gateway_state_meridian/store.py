"""The store: counters in memory of one process. Replace the dictionaries by your own storage."""

from __future__ import annotations

import math
from collections.abc import Sequence

from pydantic import Field

from relay_gateway.plugin import Grant, Hold, PluginConfig, PluginContext, StateStore
from relay_gateway_state_meridian.counting import Claim, Counter


class MeridianConfig(PluginConfig):
    """``[state_stores.meridian]``."""

    url: str = Field(default="meridian://", description="RELAY_STATE_URL, by which it is chosen.")
    sweep_every: int = Field(
        default=1000, ge=1, description="After how many reservations forgotten counters go."
    )


class MeridianStore(StateStore[MeridianConfig]):
    """Exact for one process; ``shared`` stays false until the counters are where others see."""

    name = "meridian"
    schemes = ("meridian",)
    immediate = True
    Config = MeridianConfig

    def __init__(self, config: MeridianConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self._counters: dict[tuple[str, str], Counter] = {}
        self._taken: dict[str, tuple[list[Claim], float]] = {}
        self._asked = 0

    async def reserve(self, request_id: str, holds: Sequence[Hold]) -> Grant:
        """As :meth:`reserve_now`: nothing here waits."""
        return self.reserve_now(request_id, holds)

    async def settle(self, request_id: str, holds: Sequence[Hold], used: Sequence[int]) -> None:
        """As :meth:`settle_now`."""
        self.settle_now(request_id, holds, used)

    def reserve_now(self, request_id: str, holds: Sequence[Hold]) -> Grant:
        """Takes all ``holds`` or none."""
        now = self.context.clock.time()
        self._sweep(now)
        counters = [self._counter(hold, now) for hold in holds]
        if request_id in self._taken:
            for hold, counter, claim in zip(
                holds, counters, self._taken[request_id][0], strict=True
            ):
                counter.renew(hold, claim, now)
            return self._grant(holds, counters, now, [])
        seen = [counter.look(hold, now) for hold, counter in zip(holds, counters, strict=True)]
        misfits = [
            index
            for index, hold in enumerate(holds)
            if seen[index].counted + hold.amount > hold.limit
        ]
        refused = next((index for index in misfits if not holds[index].shadow), -1)
        if refused >= 0:
            return self._grant(holds, counters, now, [], refused, seen[refused].wait)
        claims = [
            counter.take(hold, hold.amount, now)
            for hold, counter in zip(holds, counters, strict=True)
        ]
        until = now + 2 * max((hold.window for hold in holds), default=0.0)
        self._taken[request_id] = (claims, until)
        return self._grant(holds, counters, now, misfits)

    def settle_now(self, request_id: str, holds: Sequence[Hold], used: Sequence[int]) -> None:
        """Corrects each hold to what was ``used``; a second call finds nothing to correct."""
        claims, _ = self._taken.pop(request_id, ([], 0.0))
        now = self.context.clock.time()
        for hold, claim, amount in zip(holds, claims, used, strict=False):
            self._counter(hold, now).correct(hold, claim, amount, now)

    def _counter(self, hold: Hold, now: float) -> Counter:
        # A rule that changes its strategy begins anew.
        key = (hold.key, hold.strategy)
        if key not in self._counters:
            self._counters[key] = Counter(at=now, until=now + 2 * hold.window)
        return self._counters[key]

    def _grant(
        self,
        holds: Sequence[Hold],
        counters: Sequence[Counter],
        now: float,
        misfits: Sequence[int],
        refused: int = -1,
        wait: float = 0.0,
    ) -> Grant:
        after = [counter.look(hold, now) for hold, counter in zip(holds, counters, strict=True)]
        return Grant(
            refused=refused,
            retry_after=wait,
            remaining=tuple(
                max(0, math.floor(hold.limit - one.counted))
                for hold, one in zip(holds, after, strict=True)
            ),
            reset=tuple(one.reset for one in after),
            exceeded=tuple(misfits),
        )

    def _sweep(self, now: float) -> None:
        """No counter stays longer than two of its windows after its last use."""
        self._asked += 1
        if self._asked % self.config.sweep_every:
            return
        counters, taken = self._counters.items(), self._taken.items()
        self._counters = {key: one for key, one in counters if one.until > now}
        self._taken = {key: one for key, one in taken if one[1] > now}
