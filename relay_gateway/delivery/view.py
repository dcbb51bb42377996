"""One sink's view of one stream: from memory while it keeps up, else read back from the files."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

from relay_gateway.delivery.disk import Disk
from relay_gateway.delivery.reading import Numbered, Place, SegmentReader, extents_of
from relay_gateway.delivery.stream import Stream
from relay_gateway.delivery.taking import Taker

MEMORY = 16_384
"""How many records wait in memory for one sink."""
T = TypeVar("T")


class View(Generic[T]):
    """Where a sink is in a stream. ``seen`` is the number up to which records were handed out,
    others' included."""

    def __init__(
        self, stream: Stream[T], name: str, disk: Disk, taker: Taker[T], *, memory: int = MEMORY
    ) -> None:
        routed = taker.routed
        self._portion = taker.portion
        self.stream = stream
        self.seen = stream.acknowledged.get(name, 0)
        self.live = False
        """Whether records come from memory."""
        self._waiting: deque[Numbered[T]] = deque()
        self._name = name
        self._routed = routed
        self._memory = memory
        self._place = Place()
        self._reader = SegmentReader(disk, stream.decode, name if routed else None)

    def put(self, number: int, record: T) -> int:
        """A record was added to the stream; returns the depth."""
        if not self.live:
            return self.depth
        waiting = self._waiting
        if len(waiting) >= self._memory and not self.stream.reserve:
            # It does not keep up: from here on it reads what the files have.
            self.live = False
            waiting.clear()
            return self.depth
        waiting.append(Numbered(number, record))
        return len(waiting)

    @property
    def depth(self) -> int:
        """How many records there are that were not handed out, those for others included."""
        return len(self._waiting) if self.live else max(0, self.stream.number - self.seen)

    @property
    def held(self) -> int:
        """How many records are in memory for it."""
        return len(self._waiting)

    @property
    def oldest(self) -> T | None:
        """The record that waits in memory for the longest."""
        return self._waiting[0].record if self._waiting else None

    @property
    def exhausted(self) -> bool:
        """Whether there is nothing to hand out at present."""
        return self.live and not self._waiting

    async def next(self) -> Sequence[Numbered[T]]:
        """The next records, as many as make a batch; none when there are none, or only for others.
        Raises :class:`OSError` when they cannot be read back."""
        if not self.live:
            items = await self._read()
            if items or not self._arrived():
                return items
        size = min(self._portion.records, len(self._waiting))
        batch = [self._waiting.popleft() for _ in range(size)]
        if batch:
            self.seen = batch[-1].number
        return batch

    async def _read(self) -> Sequence[Numbered[T]]:
        items: list[Numbered[T]] = []
        size, seen = 0, self.seen
        while size < self._portion.bytes and len(items) < self._portion.records:
            extents, place = extents_of(self.stream.segments), self._place
            piece = await asyncio.to_thread(self._reader.read, extents, place, seen)
            items += piece.items
            size += piece.size
            seen, self._place = max(seen, piece.last), piece.place
            if self.stream.is_end(piece.place.sequence, piece.place.offset):
                break
        self.seen = seen
        return items

    def _arrived(self) -> bool:
        """Turns to memory where the files have nothing more."""
        if not self.stream.is_end(self._place.sequence, self._place.offset):
            return False
        for number, record, sinks in self.stream.reserve:
            if number > self.seen and (not self._routed or self._name in sinks):
                self._waiting.append(Numbered(number, record))
        self.live = True
        return True
