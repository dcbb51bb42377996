"""One sink's line: its own pace, its own failures, its own place in every stream."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Generic, TypeVar

import msgspec

from relay_gateway.delivery.disk import Disk
from relay_gateway.delivery.reading import Numbered
from relay_gateway.delivery.set_aside import SetAside
from relay_gateway.delivery.sifting import Sieve
from relay_gateway.delivery.stream import Stream
from relay_gateway.delivery.taking import Taker
from relay_gateway.delivery.view import MEMORY, View

SIFT_EVERY = 3
"""After every so many failures of one batch it is looked into."""
OPEN_AFTER = 3
"""Failures in a row after which the sink counts as down."""
LONGEST_TROUBLE = 500
T = TypeVar("T")
_log = logging.getLogger(__name__)


class Breaker(StrEnum):
    """What is known of a sink: works, is down, or is being tried."""

    CLOSED = "closed"
    OPEN = "open"
    HALF_OPEN = "half-open"


class Pace(msgspec.Struct, frozen=True):
    """Seconds: how long a batch may fill up, where this is not what the sink says, how long a sink
    may take, and between two tries."""

    batch: float | None = None
    answer: float = 60.0
    first_retry: float = 0.2
    last_retry: float = 30.0


class Line(Generic[T]):
    """What waits for one sink, and the task that hands it over: first what killed processes have
    left, then what this one writes, each in the order in which it was written."""

    def __init__(
        self,
        name: str,
        taker: Taker[T],
        own: Stream[T],
        disk: Disk,
        set_aside: SetAside,
        report: Callable[[str, Exception], None],
        *,
        pace: Pace | None = None,
        memory: int = MEMORY,
    ) -> None:
        self.name = name
        self.breaker = Breaker.CLOSED
        self.trouble = ""
        """What the sink said last, while it does not work."""
        self.dropped = 0
        self.retries = 0
        self.set_aside = 0
        self.until: int | None = None
        """The last record that it gets, once it is switched off."""
        self._taker = taker
        self._disk = disk
        self._aside = set_aside
        self._report = report
        self._pace = pace or Pace()
        own.readers.add(name)
        self._own = View(own, name, disk, taker, memory=memory)
        self._orphans: list[View[T]] = []
        self._pending: Sequence[Numbered[T]] = ()
        self._sieve = Sieve(self._attempt)
        self._arrived = asyncio.Event()
        self._enough = asyncio.Event()
        self._closing = asyncio.Event()
        self._listens = False
        """Whether it waits for records, or for more of them: only then it needs to be told."""
        self._handing: View[T] = self._own
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to hand over."""
        self.task = asyncio.get_running_loop().create_task(self._run())

    def put(self, number: int, record: T) -> None:
        """A record was added to the stream of this process; never blocks."""
        depth = self._own.put(number, record)
        if self._listens:
            self._arrived.set()
            if depth >= self._taker.portion.records:
                self._enough.set()

    def wake(self) -> None:
        """There may be something new to read."""
        self._arrived.set()
        self._enough.set()

    def take_over(self, stream: Stream[T]) -> None:
        """Hands over what a killed process has left, before anything else."""
        stream.readers.add(self.name)
        view = View(stream, self.name, self._disk, self._taker)
        self._orphans.append(view)
        self.wake()

    def drop(self, records: int) -> None:
        """Counts records that were given up before this sink had them."""
        if records:
            self.dropped += records
            _log.error(
                "the sink %s: %d records were given up because the spool is full, %d so far",
                self.name, records, self.dropped,
            )  # fmt: skip

    @property
    def routed(self) -> bool:
        """Whether it gets only what is routed to it."""
        return self._taker.routed

    @property
    def depth(self) -> int:
        """How many records wait, as far as is known without reading."""
        views = (self._own, *self._orphans)
        return len(self._pending) + sum(view.depth for view in views)

    @property
    def held(self) -> int:
        """How many records are in memory for it, those besides that are being handed over."""
        return self._own.held

    @property
    def waits(self) -> bool:
        """Whether it has everything there is, and gets what comes from memory."""
        return self._own.exhausted and not self._pending

    @property
    def oldest(self) -> T | None:
        """The record that waits for the longest, of those in memory."""
        return self._pending[0].record if self._pending else self._own.oldest

    @property
    def done(self) -> bool:
        """Whether it is switched off and has everything that it was to get."""
        if self.until is None or self._pending or self._orphans:
            return False
        return self._own.exhausted or self._own.seen >= self.until

    async def aclose(self, deadline: float) -> None:
        """Hands over what is left within ``deadline`` seconds; the rest stays in the files."""
        self._closing.set()
        self.wake()
        if self.task is None:
            return
        await asyncio.wait({self.task}, timeout=deadline)
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def _run(self) -> None:
        while not self.done:
            if not self._pending:
                self._handing = self._orphans[0] if self._orphans else self._own
            try:
                await self._go_on(self._handing)
            except OSError as error:
                _log.warning("records for the sink %s cannot be read: %s", self.name, error)
                await self._pause(self._pace.last_retry)
            except Exception as error:  # noqa: BLE001 - a consumer may not know its position yet
                self._fail(error)
                await self._pause(self._pace.last_retry)
            if self._closing.is_set() and self._own.exhausted and not self._orphans:
                return

    async def _go_on(self, view: View[T]) -> None:
        if view.seen == 0 and not self._taker.routed:
            view.seen = max(view.seen, await self._taker.begin(view.stream.spool))
        if not self._pending:
            if view is self._own and view.live:
                self._listens = True
                try:
                    await self._wait()
                finally:
                    self._listens = False
            self._pending = await view.next()
        if self._pending:
            await self._hand_over(view)
        view.stream.acknowledge(self.name, view.seen)
        if view is not self._own and view.exhausted:
            view.stream.leave(self.name)
            self._orphans.remove(view)

    async def _wait(self) -> None:
        """Waits for records, and a moment longer for a batch of them."""
        self._arrived.clear()
        self._enough.clear()
        if self._closing.is_set() or self.until is not None:
            return
        if self._own.exhausted:
            await self._arrived.wait()
        portion, seconds = self._taker.portion, self._pace.batch
        if self._own.depth >= portion.records:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(portion.seconds if seconds is None else seconds):
                await self._enough.wait()

    async def _hand_over(self, view: View[T]) -> None:
        failures, delay = 0, self._pace.first_retry
        while self._pending:
            error = await self._attempt(self._pending)
            if error is None:
                self._pending = ()
                self.breaker, self.trouble = Breaker.CLOSED, ""
                return
            failures += 1
            self.retries += 1
            self._fail(error, failures)
            if self._taker.sifted and failures % SIFT_EVERY == 0:
                await self._sift(view)
                if not self._pending:
                    return
            await self._pause(delay * random.uniform(0.5, 1.0))  # noqa: S311 - jitter
            delay = min(self._pace.last_retry, delay * 2)
            if self.breaker is Breaker.OPEN:
                self.breaker = Breaker.HALF_OPEN

    async def _sift(self, view: View[T]) -> None:
        before = len(self._pending)
        if before == 1 and view.live:
            # Whether it is this one or the sink shows only beside others.
            self._pending = [*self._pending, *await view.next()]
        later, refused = await self._sieve.sift(self._pending)
        for item, error in refused:
            reason = _wording(error)
            await self._aside.keep(view.stream.kind, self.name, item.record, reason)
            self.set_aside += 1
            _log.error(
                "the sink %s refuses a record; it is set aside in %s: %s",
                self.name, self._aside.path(view.stream.kind), reason,
            )  # fmt: skip
        if len(later) < len(self._pending):
            self.breaker, self.trouble = Breaker.CLOSED, ""
        self._pending = later

    async def _attempt(self, batch: Sequence[Numbered[T]]) -> Exception | None:
        records = [item.record for item in batch]
        spool = self._handing.stream.spool
        try:
            async with asyncio.timeout(self._pace.answer):
                await self._taker.take(records, spool, self._handing.seen)
        except Exception as error:  # noqa: BLE001 - sinks raise what they like
            self._report(self.name, error)
            return error
        return None

    def _fail(self, error: Exception, failures: int = OPEN_AFTER) -> None:
        self.trouble = _wording(error)
        if failures >= OPEN_AFTER:
            self.breaker = Breaker.OPEN
        if failures.bit_count() == 1:
            _log.warning("the sink %s: %s; it is tried again", self.name, self.trouble)

    async def _pause(self, seconds: float) -> None:
        """Waits, at the end of the process for a moment only."""
        try:
            async with asyncio.timeout(min(seconds, 0.2) if self._closing.is_set() else seconds):
                await self._closing.wait()
                await asyncio.sleep(min(seconds, 0.2))
        except TimeoutError:
            pass


def _wording(error: Exception) -> str:
    """What a sink said; it may have quoted a whole batch."""
    text = f"{type(error).__name__}: {error}"
    return text if len(text) <= LONGEST_TROUBLE else text[: LONGEST_TROUBLE - 1] + "…"
