"""Reading a stream back from its segments, a piece at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

import msgspec

from relay_gateway.delivery.disk import Disk
from relay_gateway.delivery.frames import FrameKind, needed, scan
from relay_gateway.delivery.segments import Route, Segment

PIECE_BYTES = 1024 * 1024
T = TypeVar("T")


class Numbered(msgspec.Struct, Generic[T], frozen=True, gc=False):
    """A record and its number; made for every request, and so of the cheapest kind."""

    number: int
    record: T


class Place(msgspec.Struct, frozen=True):
    """Where a reader is: in which segment, how far, whether in the middle of damage, and where the
    records there go."""

    sequence: int = 0
    offset: int = 0
    broken: bool = False
    route: Route = msgspec.field(default_factory=Route)


class Extent(NamedTuple):
    """A segment as it is at one moment."""

    segment: Segment
    size: int


class Piece(msgspec.Struct, Generic[T]):
    """What one read brought. ``last`` is the highest number seen, also of records for others."""

    place: Place
    last: int
    items: list[Numbered[T]] = msgspec.field(default_factory=list)
    damaged: int = 0
    size: int = 0


def extents_of(segments: Sequence[Segment]) -> list[Extent]:
    """The segments as they are now, for a reader in a thread."""
    return [Extent(segment, segment.size) for segment in segments]


class SegmentReader(Generic[T]):
    """Reads for one sink: the records after a number that are routed to it; for a ``sink`` that is
    ``None``, all of them."""

    def __init__(self, disk: Disk, decode: Callable[[bytes], T], sink: str | None) -> None:
        self._disk = disk
        self._decode = decode
        self._sink = sink

    def read(self, extents: Sequence[Extent], place: Place, after: int) -> Piece[T]:
        """The next records, from at most one piece of one segment; none at the end. Blocks. Raises
        :class:`OSError`; a segment that is gone was given up, and is passed over."""
        for index, (segment, size) in enumerate(extents, 1):
            start = place.offset if segment.sequence == place.sequence else 0
            if segment.sequence < place.sequence or start >= size:
                continue
            if not start and segment.last <= after and index < len(extents):
                continue  # not so the last, which grows: where its records go is told in it
            here = Place(segment.sequence, start, start > 0 and place.broken, place.route)
            try:
                return self._read_at(segment, size, here, after)
            except FileNotFoundError:
                continue
        if not extents:
            return Piece(place, after)
        last = extents[-1]
        return Piece(Place(last.segment.sequence, last.size, route=place.route), after)

    def _read_at(self, segment: Segment, size: int, place: Place, after: int) -> Piece[T]:
        left = size - place.offset
        data = self._disk.read(segment.path, place.offset, min(left, PIECE_BYTES))
        if len(data) < needed(data) <= left:
            data = self._disk.read(segment.path, place.offset, needed(data))
        # A file may be shorter than it was, after a loss of power.
        left = left if len(data) >= min(left, PIECE_BYTES) else len(data)
        found = scan(data, segment.salt, left, broken=place.broken)
        piece: Piece[T] = Piece(place, after, damaged=found.damaged, size=len(data))
        route = place.route
        for kind, number, body in found.frames:
            if kind == FrameKind.ROUTE:
                route = msgspec.msgpack.decode(body, type=Route)
            elif kind == FrameKind.RECORD and number > piece.last:
                self._take(piece, number, body, route)
        offset = size if len(data) == left else place.offset + found.end
        piece.place = Place(segment.sequence, offset, found.broken, route)
        return piece

    def _take(self, piece: Piece[T], number: int, body: bytes, route: Route) -> None:
        piece.last = number
        if self._sink is not None and self._sink not in route.sinks:
            return
        try:
            piece.items.append(Numbered(number, self._decode(body)))
        except (msgspec.DecodeError, msgspec.ValidationError):
            piece.damaged += 1
