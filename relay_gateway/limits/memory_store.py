"""The store of one process: counters in a dictionary, let go of when they count for nothing."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from relay_gateway.limits.counters import WINDOWED, Counter
from relay_gateway.limits.gauge import Gauge
from relay_gateway.limits.immediate_store import ImmediateStore
from relay_gateway.plugin.base import PluginConfig
from relay_gateway.plugin.context import PluginContext
from relay_gateway.plugin.state import Hold

SWEEP_SECONDS = 0.05
SWEPT_AT_ONCE = 500


class MemoryStore(ImmediateStore):
    """Exact for one process. However many keys come once, they do not stay."""

    name = "memory"
    schemes = ("memory",)

    def __init__(self, config: PluginConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self._counters: dict[str, Counter] = {}
        self._queue: deque[str] = deque()
        """Every key, to be looked at in turn."""
        self._made = 0
        self._sweep_at = 0.0

    def __len__(self) -> int:
        return len(self._counters)

    def counters(self, holds: Sequence[Hold], now: float) -> list[Counter]:
        """The counter of each of ``holds``, a new one where there is none of its strategy."""
        if now >= self._sweep_at:
            self._sweep(now)
        found, known = [], self._counters
        for hold in holds:
            counter = known.get(hold.key)
            if counter is None or counter.strategy != hold.strategy:
                counter = self._new(hold, now)
            found.append(counter)
        return found

    def _new(self, hold: Hold, now: float) -> Counter:
        kind = WINDOWED.get(hold.strategy)
        made = Gauge(now) if kind is None else kind([0.0] * kind.width, now)
        if hold.key not in self._counters:
            self._queue.append(hold.key)
            self._made += 1
        made.until = now + hold.window
        self._counters[hold.key] = made
        return made

    def _sweep(self, now: float) -> None:
        """Looks at the next few counters: more than were made since the last time."""
        count = min(len(self._queue), SWEPT_AT_ONCE + 2 * self._made)
        for _ in range(count):
            key = self._queue.popleft()
            if self._counters[key].until <= now:
                del self._counters[key]
            else:
                self._queue.append(key)
        self._made = 0
        self._sweep_at = now + SWEEP_SECONDS
