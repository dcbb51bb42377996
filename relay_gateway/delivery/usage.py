"""Delivery of usage records: each sink has its own line, its own pace and its own failures.

Records wait in memory until their sink has taken them. A sink that is down delays its own line
only; beyond the capacity the oldest records of that line are dropped, counted and logged.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import deque
from collections.abc import Callable, Sequence

import msgspec

from relay_gateway.catalog.pricing import price
from relay_gateway.catalog.snapshot import Pricing
from relay_gateway.plugin.usage import UsageRecord, UsageSink

BATCH = 500
BATCH_WAIT = 0.05
CAPACITY = 200_000
FIRST_RETRY = 0.2
LAST_RETRY = 30.0

_log = logging.getLogger(__name__)


class SinkLine:
    """The records that wait for one sink, and the task that hands them over."""

    def __init__(
        self, name: str, sink: UsageSink, report: Callable[[str, Exception], None]
    ) -> None:
        self.name = name
        self.dropped = 0
        self._sink = sink
        self._report = report
        self._waiting: deque[tuple[UsageRecord, Pricing | None]] = deque()
        self._writing = 0
        self._arrived = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to hand over."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def put(self, record: UsageRecord, pricing: Pricing | None) -> None:
        """Adds a record; never blocks."""
        if len(self._waiting) >= CAPACITY:
            self._waiting.popleft()
            self.dropped += 1
            if self.dropped & (self.dropped - 1) == 0:  # each power of two, not each record
                _log.error("usage sink %s: %d records dropped so far", self.name, self.dropped)
        self._waiting.append((record, pricing))
        self._arrived.set()

    async def aclose(self, deadline: float) -> int:
        """Hands over what is left within ``deadline`` seconds; returns how many records were not
        taken."""
        self._closing = True
        self._arrived.set()
        if self._task is not None:
            try:
                await asyncio.wait_for(self._task, deadline)
            except TimeoutError:
                _log.error("usage sink %s did not take everything before the end", self.name)
        return len(self._waiting) + self._writing

    @property
    def depth(self) -> int:
        """How many records wait."""
        return len(self._waiting) + self._writing

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            if not self._closing and len(self._waiting) < BATCH:
                await asyncio.sleep(BATCH_WAIT)
            while self._waiting:
                await self._hand_over()
            self._arrived.clear()
            if self._closing:
                return

    async def _hand_over(self) -> None:
        size = min(BATCH, len(self._waiting))
        batch = [_priced(*self._waiting.popleft()) for _ in range(size)]
        self._writing = size
        delay = FIRST_RETRY
        while True:
            try:
                await self._sink.write(batch)
            except Exception as error:  # noqa: BLE001 - sinks raise what they like
                self._report(self.name, error)
                _log.warning("usage sink %s: %s; trying again", self.name, error)
                await asyncio.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
                delay = min(LAST_RETRY, delay * 2)
            else:
                self._writing = 0
                return


class UsageDelivery:
    """Hands every settled record to each of the sinks."""

    def __init__(
        self, sinks: Sequence[tuple[str, UsageSink]], report: Callable[[str, Exception], None]
    ) -> None:
        self.lines = tuple(SinkLine(name, sink, report) for name, sink in sinks)

    def start(self) -> None:
        """Begins to hand over."""
        for line in self.lines:
            line.start()

    def put(self, record: UsageRecord, pricing: Pricing | None) -> None:
        """Takes one record from the request path."""
        for line in self.lines:
            line.put(record, pricing)

    async def aclose(self, deadline: float) -> None:
        """Hands over what is left, for at most ``deadline`` seconds."""
        left = await asyncio.gather(*(line.aclose(deadline) for line in self.lines))
        if any(left):
            _log.error("%d usage records could not be delivered", sum(left))


def _priced(record: UsageRecord, pricing: Pricing | None) -> UsageRecord:
    cost = price(pricing, record.tokens, record.units)
    return msgspec.structs.replace(
        record, cost_nanos=cost.nanos, currency=cost.currency, unpriced=cost.unpriced
    )
