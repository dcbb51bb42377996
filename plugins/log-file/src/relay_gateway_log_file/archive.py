"""All lines of a sink for its readers, newest file first, up to a limit."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import BinaryIO
from uuid import UUID

import msgspec

from relay_gateway_log_file.folder import UNREADABLE, Folder, Segment
from relay_gateway_log_file.lines import whole_lines

SECOND = 1_000_000
AN_HOUR = 3600
_BREATH = 0.0001
"""Seconds. Python would let the event loop wait 5 ms for its turn beside a thread that reads."""


class Source(msgspec.Struct, frozen=True):
    """One file: ``first`` ≤ start of each record < ``end``, in microseconds; ``None`` where nothing
    is known. ``open`` gives it, ``size`` is how much of it is read."""

    name: str
    open: Callable[[], BinaryIO]
    size: int | None = None
    first: int | None = None
    end: int | None = None

    def overlaps(self, start: int | None, end: int | None) -> bool:
        """Whether a record that began from ``start`` to before ``end`` may be in it."""
        return (start is None or self.end is None or self.end > start) and (
            end is None or self.first is None or self.first < end
        )


class Budget:
    """How many bytes of lines one question may read."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._left = size

    def spend(self, size: int) -> None:
        """Raises :class:`ValueError` when it is used up."""
        self._left -= size
        if self._left < 0:
            raise ValueError(
                f"this would read more than {self._size} bytes of usage files, which is the limit "
                "([usage_sinks.file] read_bytes): narrow it with from and to, or read from a sink "
                "that has an index"
            )


class Archive:
    """The files of ``folder`` as they are when they are asked for."""

    def __init__(self, folder: Folder, limit: int, log: logging.Logger) -> None:
        self._folder = folder
        self._limit = limit
        self._log = log

    def budget(self) -> Budget:
        """What one question may read."""
        return Budget(self._limit)

    @contextmanager
    def sources(self) -> Iterator[list[Source]]:
        """The file that is written to, then the rotated ones, newest first."""
        with ExitStack() as opened:
            # Within a turn, so that no rotation comes between the two.
            with self._folder.writing.taken():
                active = [_active(opened.enter_context(file)) for file in self._open_active()]
                rotated = [_rotated(segment) for segment in self._folder.segments()]
            yield [*active, *rotated]

    def pieces(self, source: Source) -> Iterator[bytes]:
        """Whole lines of ``source``, many at a time. What is damaged is left out and logged."""
        try:
            with source.open() as file:
                for piece in whole_lines(file, source.size):
                    yield piece
                    time.sleep(_BREATH)
        except FileNotFoundError:
            return  # its retention ended meanwhile
        except UNREADABLE as error:
            self._log.warning("%s: cannot be read to its end: %s", source.name, error)

    def report_damage(self, source: Source, lines: int) -> None:
        """Says that so many lines are no records."""
        if lines:
            self._log.warning("%s: %d lines are damaged and left out", source.name, lines)

    def find(self, request_id: str, needle: bytes) -> bytes | None:
        """The line that begins with ``needle``. Files of the hours that the id tells of are read
        first, as it is nearly always there."""
        moment = _moment_of(request_id)
        with self.sources() as sources:
            for source in sorted(sources, key=lambda one: not one.overlaps(*moment)):
                for piece in self.pieces(source):
                    place = piece.find(needle)
                    if place >= 0:
                        return piece[place : piece.index(b"\n", place)]
        return None

    def _open_active(self) -> Iterator[BinaryIO]:
        with suppress(FileNotFoundError):
            yield self._folder.active.open("rb")


def _active(file: BinaryIO) -> Source:
    # It may be renamed from now on, so it is already open; and it may grow.
    return Source(str(file.name), lambda: file, os.fstat(file.fileno()).st_size)


def _rotated(segment: Segment) -> Source:
    return Source(
        str(segment.path),
        segment.open,
        first=segment.first * SECOND,
        end=(segment.last + 1) * SECOND,
    )


def _moment_of(request_id: str) -> tuple[int | None, int | None]:
    """The hours around the time in a UUIDv7, in microseconds; nothing for another id."""
    try:
        number = UUID(request_id)
    except ValueError:
        return None, None
    if number.version != 7:
        return None, None
    moment = (number.int >> 80) * 1000
    return moment - AN_HOUR * SECOND, moment + AN_HOUR * SECOND
