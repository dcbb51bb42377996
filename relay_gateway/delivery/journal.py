"""The journal: the stream that this process writes, one append per record.

Nothing here waits on the event loop but the append itself. When an append or a sync fails, the file
is given up for good; records are then kept in memory, in the reserve, until another segment can be
begun, which starts with everything that the disk may not have.
"""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, Literal, TypeVar

import msgspec

from relay_gateway.delivery.disk import Disk
from relay_gateway.delivery.frames import HEADER_BYTES, Frame, FrameKind, frame_of, scan, seal
from relay_gateway.delivery.segments import SEGMENT_BYTES, Route, Segment, new_segment
from relay_gateway.delivery.stream import Kept, Stream

RESERVE = 10_000
"""How many records may wait in memory for a disk; from then on new requests are refused. As many
again have room that belong to requests which had begun before."""
_RECORD, _OPENED = FrameKind.RECORD.value, FrameKind.OPENED.value
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})

Sync = Literal["always", "interval", "never"]
T = TypeVar("T")
_log = logging.getLogger(__name__)


class Journal(Stream[T], Generic[T]):
    """The stream of this process. It has no file until :meth:`mend` has made the first one.

    ``on_trouble`` is called when a file is given up; :meth:`mend` is then due.
    """

    def __init__(
        self,
        spool: str,
        kind: str,
        decode: Callable[[bytes], T],
        disk: Disk,
        instance: str,
        *,
        sync: Sync = "interval",
        on_trouble: Callable[[], None] = lambda: None,
        segment_bytes: int = SEGMENT_BYTES,
        reserve: int = RESERVE,
    ) -> None:
        super().__init__(spool, kind, decode)
        self.directory: Path | None = None
        self.failure: OSError | None = None
        self.failures = 0
        self.dropped = 0
        """Records that neither a file nor the reserve had room for."""
        self._disk = disk
        self._route = Route((), instance)
        self._sync = sync
        self._on_trouble = on_trouble
        self._segment_bytes = segment_bytes
        self._room = reserve
        self._opened: dict[str, object] = {}
        self._buffer = bytearray()
        self._holds = False
        self._gathered = bytearray()
        self._frames: list[tuple[int, int, T | None]] = []
        """Of each frame that was gathered: where it ends, number and record, if it has one."""
        self._encoder = msgspec.msgpack.Encoder()
        self._descriptor: int | None = None
        self._current = Segment(Path(), 0, 0)
        self._sequence = 0
        self._synced = 0
        self._retired: list[int] = []
        """Descriptors not used any more; a thread may still be syncing one."""
        self._suspect: tuple[Segment, int] | None = None
        """A segment that was given up, and up to where the disk certainly has it."""

    # On the request path.

    def append(self, record: T, request_id: str = "") -> int:
        """Writes a record; returns its number. Never fails: what cannot be written is kept."""
        self.number = number = self.number + 1
        self._opened.pop(request_id, None)
        if self._descriptor is None:
            self._keep(number, record)
            return number
        buffer, segment = self._buffer, self._current
        self._encoder.encode_into(record, buffer, HEADER_BYTES)
        seal(buffer, _RECORD, number, segment.salt)
        if self._holds:
            self._gather(number, record)
            return number
        if self._missing_of(buffer):
            self._keep(number, record)
            return number
        segment.last = number
        segment.records += 1
        if self._sync == "always":
            self._sync_now()
        return number

    def announce(self, request_id: str, opened: object) -> None:
        """Writes that a request is about to be sent to an upstream."""
        self._opened[request_id] = opened
        if self._descriptor is not None:
            buffer = self._buffer
            self._encoder.encode_into(opened, buffer, HEADER_BYTES)
            seal(buffer, _OPENED, 0, self._current.salt)
            if self._holds:
                self._gather(0, None)
            else:
                self._missing_of(buffer)

    def hold(self) -> None:
        """Gathers records and announcements until :meth:`release`, which must come before anything
        else looks at the files: without a pause in between."""
        self._holds = True

    def release(self) -> None:
        """Appends what was gathered in one write. Never fails, as :meth:`append`."""
        self._holds = False
        if not self._frames:
            return
        frames, self._frames = self._frames, []
        segment = self._current
        missing = self._missing_of(self._gathered)
        written = len(self._gathered) - missing
        if missing:
            # What is whole counts as written, or it would come twice.
            segment.size += max((end for end, _, _ in frames if end <= written), default=0)
        self._gathered.clear()
        records = 0
        for end, number, record in frames:
            if record is None:
                continue
            if end > written:
                self._keep(number, record)
                continue
            segment.last = number
            records += 1
        segment.records += records
        if records and self._sync == "always" and self._descriptor is not None:
            self._sync_now()

    def _gather(self, number: int, record: T | None) -> None:
        self._gathered += self._buffer
        self._frames.append((len(self._gathered), number, record))

    def route(self, sinks: Sequence[str]) -> None:
        """Has the records from now on go to ``sinks``."""
        self._route = Route(tuple(sinks), self._route.instance)
        if self._descriptor is not None:
            self._write(self._route_frame(self._route.sinks, self._current.salt))

    @property
    def sinks(self) -> tuple[str, ...]:
        """Where records go at present."""
        return self._route.sinks

    @property
    def full(self) -> bool:
        """Whether no further request may begin."""
        return len(self.reserve) >= self._room

    @property
    def written(self) -> bool:
        """Whether records go to a file."""
        return self._descriptor is not None

    def _keep(self, number: int, record: T) -> None:
        if len(self.reserve) >= 2 * self._room:
            self.dropped += 1
            if self.dropped.bit_count() == 1:
                _log.error("%d records had no room: the spool cannot be written", self.dropped)
            return
        self.reserve.append(Kept(number, record, self._route.sinks))

    def _write(self, data: bytes | bytearray) -> bool:
        return not self._missing_of(data)

    def _missing_of(self, data: bytes | bytearray) -> int:
        """Writes ``data``; how many bytes of it the file has not taken, which is then given up."""
        assert self._descriptor is not None  # noqa: S101 - for the type checker
        try:
            written = self._disk.write(self._descriptor, data)
        except OSError as error:
            self._give_up(error)
            return len(data)
        missing = len(data) - written
        if missing:
            # The rest would not fit either, or the next write tells why.
            self._give_up(OSError(errno.ENOSPC, f"{written} of {len(data)} bytes were written"))
        else:
            self._current.size += written
        return missing

    def _sync_now(self) -> None:
        assert self._descriptor is not None  # noqa: S101 - for the type checker
        try:
            self._disk.sync(self._descriptor)
        except OSError as error:
            self._give_up(error)
        else:
            self._synced = self._current.size

    def _give_up(self, error: OSError) -> None:
        """Never uses the present file again: after a failure nobody knows what it holds."""
        self.failures += 1
        if self.failure is None:
            _log.error("spool %s: %s; records are kept in memory", self._current.path, error)
        self.failure = error
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._suspect = (self._current, self._synced)
            self._retired.append(descriptor)
        self._on_trouble()

    def _close(self, descriptor: int) -> None:
        try:
            self._disk.close(descriptor)
        except OSError as error:
            _log.warning("spool %s: %s", self._current.path, error)

    # Beside it.

    def forget(self) -> None:
        """Lets go of what is in the reserve and was taken by every sink."""
        done = self.done
        while self.reserve and self.reserve[0].number <= done:
            self.reserve.popleft()

    async def sync(self) -> None:
        """Has the disk hold what was written so far."""
        descriptor, segment, size = self._descriptor, self._current, self._current.size
        if descriptor is None or self._sync == "never" or size == self._synced:
            return
        try:
            await asyncio.to_thread(self._disk.sync, descriptor)
        except OSError as error:
            if self._descriptor == descriptor:
                self._give_up(error)
        else:
            if self._current is segment:
                self._synced = size

    async def rotate(self) -> None:
        """Goes on in another segment where the present one is large enough."""
        if self._descriptor is None or self._current.size < self._segment_bytes:
            return
        before, old = self._descriptor, self._current
        descriptor, segment = await asyncio.to_thread(self._create)
        if not self._writes_to(old):
            self._close(descriptor)
            await asyncio.to_thread(self._discard, segment)
            return
        synced = self._synced
        self._adopt(descriptor, segment)
        self._write(self._beginning(segment.salt))
        try:
            await asyncio.to_thread(self._finish, before)
        except OSError as error:
            self.failures += 1
            _log.error("spool %s: %s; what it holds is written again", old.path, error)
            salvaged = await asyncio.to_thread(self._salvage, old, synced)
            if self._writes_to(segment):
                self._write(_frames(salvaged, segment))

    async def mend(self) -> bool:
        """Begins another segment with all that the disk may not have; whether that worked.

        Raises :class:`OSError` where it did not.
        """
        if self._descriptor is not None or self.directory is None:
            return self._descriptor is not None
        self._close_retired()
        salvaged: list[Frame] = []
        if self._suspect is not None and not (self.failure and self.failure.errno in FULL):
            # Where space is the matter, what was written is good.
            salvaged = await asyncio.to_thread(self._salvage, *self._suspect)
        descriptor, segment = await asyncio.to_thread(self._create)
        try:
            self.forget()
            kept, opened = list(self.reserve), set(self._opened)
            data = self._beginning(segment.salt) + _frames(salvaged, segment)
            data += self._reserve_frames(kept, segment)
            await asyncio.to_thread(self._write_whole, descriptor, data)
            self._adopt(descriptor, segment, len(data))
        except BaseException:
            self._close(descriptor)
            await asyncio.to_thread(self._discard, segment)
            raise
        return self._catch_up(kept, opened, segment)

    def _catch_up(self, kept: list[Kept[T]], opened: set[str], segment: Segment) -> bool:
        """Writes what has come while the beginning of the segment was written."""
        last = kept[-1].number if kept else 0
        later = [one for one in self.reserve if one.number > last]
        rest = b"".join(
            self._opened_frame(one, segment.salt)
            for request_id, one in self._opened.items()
            if request_id not in opened
        )
        rest += self._reserve_frames(later, segment)
        rest += self._route_frame(self._route.sinks, segment.salt)
        if not self._write(rest):
            return False
        _log.log(
            logging.WARNING if self.failure else logging.DEBUG,
            "spool %s: records are written here from now on", segment.path,
        )  # fmt: skip
        self.reserve.clear()
        self.failure, self._suspect = None, None
        return True

    def _close_retired(self) -> None:
        while self._retired:
            self._close(self._retired.pop())

    def _writes_to(self, segment: Segment) -> bool:
        return self._descriptor is not None and self._current is segment

    def close_segment(self) -> None:
        """Stops writing to the present file, so that it can be given up; :meth:`mend` is due."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            self._close(descriptor)

    async def end(self) -> None:
        """Writes no more; the disk holds everything that was written."""
        await self.sync()
        self.close_segment()
        self._close_retired()

    def _adopt(self, descriptor: int, segment: Segment, size: int = 0) -> None:
        self._descriptor, self._current, self._synced = descriptor, segment, 0
        segment.size = size
        segment.last = max(segment.last, self.segments[-1].last if self.segments else 0)
        self.segments.append(segment)

    def _create(self) -> tuple[int, Segment]:
        assert self.directory is not None  # noqa: S101 - for the type checker
        self._sequence += 1
        segment = new_segment(self.directory, self.kind, self._sequence)
        descriptor = self._disk.create(segment.path)
        try:
            self._disk.sync_directory(self.directory)
        except OSError:
            self._disk.close(descriptor)
            self._disk.unlink(segment.path)
            raise
        return descriptor, segment

    def _discard(self, segment: Segment) -> None:
        try:
            self._disk.unlink(segment.path)
        except OSError as error:
            _log.warning("spool %s cannot be removed: %s", segment.path, error)

    def _finish(self, descriptor: int) -> None:
        try:
            if self._sync != "never":
                self._disk.sync(descriptor)
        finally:
            self._close(descriptor)

    def _salvage(self, segment: Segment, synced: int) -> list[Frame]:
        """What a segment that was given up has behind its last sync, as far as it can be read."""
        try:
            data = self._disk.read(segment.path, synced, segment.size - synced)
        except OSError as error:
            _log.warning("spool %s cannot be read back: %s", segment.path, error)
            return []
        frames = scan(data, segment.salt, len(data)).frames
        return [frame for frame in frames if frame.kind != FrameKind.OPENED]

    def _write_whole(self, descriptor: int, data: bytes) -> None:
        if self._disk.write(descriptor, data) != len(data):
            raise OSError(errno.ENOSPC, "the beginning of a segment was not written whole")

    def _beginning(self, salt: int) -> bytes:
        """What every segment begins with, so that those before it can go."""
        opened = (self._opened_frame(one, salt) for one in self._opened.values())
        return self._route_frame(self._route.sinks, salt) + b"".join(opened)

    def _opened_frame(self, opened: object, salt: int) -> bytes:
        return frame_of(FrameKind.OPENED, 0, self._encoder.encode(opened), salt)

    def _route_frame(self, sinks: tuple[str, ...], salt: int) -> bytes:
        """Where records go from here on; it has the highest number that was given, so that none is
        given again when the records before are gone."""
        body = self._encoder.encode(Route(sinks, self._route.instance))
        return frame_of(FrameKind.ROUTE, self.number, body, salt)

    def _reserve_frames(self, kept: Sequence[Kept[T]], segment: Segment) -> bytes:
        parts = []
        sinks: tuple[str, ...] | None = None
        for number, record, to in kept:
            if to != sinks:
                sinks = to
                parts.append(self._route_frame(to, segment.salt))
            body = self._encoder.encode(record)
            parts.append(frame_of(FrameKind.RECORD, number, body, segment.salt))
            segment.last = number
            segment.records += 1
        return b"".join(parts)


def _frames(frames: Sequence[Frame], segment: Segment) -> bytes:
    for frame in frames:
        if frame.kind == FrameKind.RECORD:
            segment.last = frame.number
            segment.records += 1
    return b"".join(
        frame_of(FrameKind(kind), number, body, segment.salt) for kind, number, body in frames
    )
