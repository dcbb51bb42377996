"""The file that batches are appended to, by any number of processes in turn.

Nobody keeps the file open for himself: each writer takes the turn, looks whether the file is still
the one it knows, reads what others have added, and appends. So lines are never mixed, a rotation by
one loses nothing of the others, and an id that any of them has written lately is not written again.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from relay_gateway.plugin import Clock, UsageRecord
from relay_gateway_log_file.folder import UNREADABLE, Folder
from relay_gateway_log_file.lines import BEGINNING, lines_of, microseconds, stamps_of, whole_lines
from relay_gateway_log_file.output import write_whole
from relay_gateway_log_file.recent import RecentIds

_SECOND = 1_000_000
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW


class Rules(msgspec.Struct, frozen=True):
    """When a file is full: by ``size`` in bytes and ``period`` in seconds (0: never). ``synced``
    is whether each batch is on the disk before it counts as written, ``durable`` whether the disk
    is waited for at all."""

    size: int
    period: int
    synced: bool
    durable: bool


class _File:
    """The open file: ``end`` is up to where its lines are known, ``times`` their span."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, _FLAGS, 0o600)
        self.end = 0
        self.times: tuple[str, str] | None = None
        try:
            found = os.fstat(self.descriptor)
            self.identity = _identity(found)
            _refuse_foreign(self.descriptor, stat.S_ISREG(found.st_mode), path)
        except BaseException:
            self.close()
            raise

    def note(self, times: Iterable[str]) -> None:
        """Widens the span."""
        known = [*(self.times or ()), *times]
        if known:
            self.times = min(known), max(known)

    def close(self) -> None:
        """Gives the descriptor back."""
        os.close(self.descriptor)


class Journal:
    """Appends to the active file of ``folder``. Methods run in threads and take turns."""

    def __init__(self, folder: Folder, rules: Rules, clock: Clock, log: logging.Logger) -> None:
        self._folder = folder
        self._rules = rules
        self._clock = clock
        self._log = log
        self._recent = RecentIds()
        self._file: _File | None = None
        self._unsynced = False

    def open(self) -> None:
        """Makes the directory and finds out whether the file can be written."""
        self._folder.make()
        with self._folder.writing.taken():
            # Its lines are read with the first batch: not every process writes.
            file = _File(self._folder.active)
            file.close()

    def write(self, records: Sequence[UsageRecord]) -> bool:
        """Appends the records that are not there yet, all of them or none; tells whether the file
        was rotated. Raises :class:`OSError`, or :class:`ValueError` for a time that is none."""
        with self._folder.writing.taken():
            file = self._current()
            fresh = self._recent.unknown(records)
            times = _span([record.started_at for record in fresh.values()])
            data = lines_of(fresh.values())
            rotated = self._is_due(file, len(data))
            if rotated:
                file = self._rotate(file)
            self._append(file, data)
            file.note(times)
            self._recent.add(fresh)
        return rotated

    def sync(self) -> None:
        """Makes what was written outlive a power cut."""
        with self._folder.writing.taken():
            self._sync()

    def close(self) -> None:
        """Closes the file; what the disk does not have yet is waited for, where that is wanted."""
        if self._file is None:
            return
        with self._folder.writing.taken():
            try:
                if self._rules.durable:
                    self._sync()
            finally:
                self._forget()

    def _current(self) -> _File:
        """The file as it is now, with all of its lines known."""
        path, file = self._folder.active, self._file
        if file is None or _identity_of(path) != file.identity:
            file = self._reopen(path)
        self._catch_up(file)
        return file

    def _reopen(self, path: Path) -> _File:
        """Opens what has this name now: another process has rotated, or this one begins."""
        left, self._file = self._file, None
        if left is not None:
            with suppress(OSError):
                self._learn(left)
            left.close()
        self._learn_newest(None if left is None else left.identity)
        self._file = file = _File(path)
        if self._rules.durable:
            self._folder.sync()
        return file

    def _learn_newest(self, known: tuple[int, int] | None) -> None:
        """The ids of the newest rotated file: who ended before a batch counted as written may have
        rotated since."""
        for segment in self._folder.segments()[:1]:
            # One that is compressed has no identity to compare, as has one never opened.
            if known is not None and _identity_of(segment.path) == known:
                return
            with suppress(*UNREADABLE), segment.open() as lines:
                for piece in whole_lines(lines):
                    self._recent.add(stamp.request_id for stamp in stamps_of(piece))

    def _catch_up(self, file: _File) -> None:
        size = os.fstat(file.descriptor).st_size
        if size > file.end:
            self._learn(file)
            if file.end < size:
                self._cut(file, size)
        file.end = min(file.end, size)

    def _learn(self, file: _File) -> None:
        """Reads the whole lines after ``file.end``."""
        with open(os.dup(file.descriptor), "rb") as lines:  # noqa: PTH123 - a descriptor
            lines.seek(file.end)
            for piece in whole_lines(lines):
                stamps = stamps_of(piece)
                self._recent.add(stamp.request_id for stamp in stamps)
                file.note(_readable_span([stamp.started_at for stamp in stamps]))
                file.end += len(piece)
                self._unsynced = True

    def _cut(self, file: _File, size: int) -> None:
        """Removes a line without an end: its writer was killed, or the power went."""
        os.ftruncate(file.descriptor, file.end)
        self._log.warning(
            "%s: removed %d bytes at the end, of records that were not written completely",
            self._folder.active, size - file.end,
        )  # fmt: skip

    def _is_due(self, file: _File, more: int) -> bool:
        """Whether ``more`` bytes belong into a new file."""
        if not more or file.times is None:
            return False
        if file.end + more > self._rules.size:
            return True
        if not self._rules.period:
            return False
        # Whoever crosses the turn of a period rotates, so the last write tells the file's period.
        last_write = os.fstat(file.descriptor).st_mtime
        return self._clock.time() // self._rules.period > last_write // self._rules.period

    def _rotate(self, file: _File) -> _File:
        if self._rules.durable:
            self._sync()
        first, last = (microseconds(time) // _SECOND for time in file.times or ())
        self._folder.active.rename(self._folder.new_segment(first, last).path)
        return self._current()

    def _append(self, file: _File, data: bytes) -> None:
        try:
            if data:
                self._unsynced = True
                write_whole(file.descriptor, data)
            if self._rules.synced:
                self._sync()
        except OSError:
            self._undo(file)
            raise
        file.end += len(data)

    def _sync(self) -> None:
        if self._unsynced and self._file is not None:
            os.fdatasync(self._file.descriptor)
            self._unsynced = False

    def _undo(self, file: _File) -> None:
        """Takes back what is there of a batch. A descriptor that failed to sync is not to be
        trusted again: the next sync of it could succeed without having written anything."""
        try:
            os.ftruncate(file.descriptor, file.end)
        except OSError as error:
            self._log.error(
                "%s: part of a batch stays at its end, to be removed before the next: %s",
                self._folder.active, error.strerror,
            )  # fmt: skip
        self._forget()

    def _forget(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            file.close()


def _span(times: Sequence[str]) -> Sequence[str]:
    """The first and the last of ``times``. Raises :class:`ValueError` when these are none."""
    if not times:
        return ()
    span = min(times), max(times)
    for time in span:
        microseconds(time)
    return span


def _readable_span(times: Sequence[str]) -> Sequence[str]:
    """The same of those that are times."""
    try:
        return _span(times)
    except ValueError:
        return _span([time for time in times if _is_time(time)])


def _is_time(text: str) -> bool:
    with suppress(ValueError):
        microseconds(text)
        return True
    return False


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _identity_of(path: Path) -> tuple[int, int] | None:
    try:
        return _identity(path.lstat())
    except FileNotFoundError:
        return None


def _refuse_foreign(descriptor: int, regular: bool, path: Path) -> None:  # noqa: FBT001
    """The last line is removed when it has no end, so it had better be one of ours."""
    start = os.pread(descriptor, len(BEGINNING), 0) if regular else b""
    # A power cut may leave zeros.
    if not regular or not (BEGINNING.startswith(start) or start.startswith(b"\0")):
        raise OSError(errno.EINVAL, f"{path} holds something else than usage records")
