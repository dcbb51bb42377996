"""A stream: the records of one kind in one spool directory, and how far each sink has them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from relay_gateway.delivery.segments import Segment

T = TypeVar("T")


class Kept(NamedTuple, Generic[T]):
    """A record that is in memory only, and where it goes."""

    number: int
    record: T
    sinks: tuple[str, ...]


class Stream(Generic[T]):
    """What is read from. Records have numbers that increase; ``number`` is the highest given.

    ``acknowledged`` is how far each sink has taken them, ``readers`` are the names of those that
    still want some. ``reserve`` are the records that no file has.
    """

    def __init__(self, spool: str, kind: str, decode: Callable[[bytes], T]) -> None:
        self.spool = spool
        self.kind = kind
        self.decode = decode
        self.segments: list[Segment] = []
        self.number = 0
        self.reserve: deque[Kept[T]] = deque()
        self.acknowledged: dict[str, int] = {}
        self.readers: set[str] = set()
        self.dirty = False
        self.damaged = 0
        self.on_left: Callable[[], None] = _nothing
        """Called when no reader is left."""

    @property
    def size(self) -> int:
        """Bytes in files."""
        return sum(segment.size for segment in self.segments)

    def acknowledge(self, name: str, number: int) -> None:
        """A sink has taken everything up to ``number``."""
        if number > self.acknowledged.get(name, -1):
            self.acknowledged[name] = number
            self.dirty = True

    def leave(self, name: str) -> None:
        """A sink wants nothing more."""
        self.readers.discard(name)
        if not self.readers:
            self.on_left()

    @property
    def done(self) -> int:
        """Up to which number every reader has taken everything."""
        return min((self.acknowledged.get(name, 0) for name in self.readers), default=self.number)

    def spare(self) -> Sequence[Segment]:
        """Closed segments that nobody needs any more."""
        done = self.done
        return [segment for segment in self.segments[:-1] if segment.last <= done]

    def is_end(self, sequence: int, offset: int) -> bool:
        """Whether nothing in the files lies behind this place."""
        if not self.segments:
            return True
        last = self.segments[-1]
        return sequence > last.sequence or (sequence == last.sequence and offset >= last.size)


def _nothing() -> None:
    """What there is to do when nobody asked for more."""
