"""Deletes payloads whose time is over, and the oldest ones where there are too many bytes."""

from __future__ import annotations

import logging
import os
import re
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

import msgspec

from relay_gateway.plugin import Clock
from relay_gateway_log_file.payload_tree import PART, Hour, PayloadTree
from relay_gateway_log_file.turns import Turns

AN_HOUR: Final = 3600
A_WHILE: Final = 2_000_000_000
"""Nanoseconds after which a directory's time of change is certain."""
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_HOUR: Final = re.compile(r"[01]\d|2[0-3]", re.ASCII)


class Extent(msgspec.Struct, frozen=True):
    """How many bytes an hour has; ``changed`` is the time that its directory told, 0 where it has
    to be looked at again in any case."""

    size: int
    changed: int


class PayloadRetention:
    """Looks through ``tree`` in a thread; of several processes only one at a time."""

    def __init__(
        self, tree: PayloadTree, seconds: float, size: int, clock: Clock, log: logging.Logger
    ) -> None:
        self._tree = tree
        self._seconds = seconds
        self._size = size
        self._clock = clock
        self._log = log
        self._turns = Turns(tree.root / ".retention.lock")
        self._extents: dict[Hour, Extent] = {}
        self._stopping = threading.Event()

    def run(self) -> None:
        """Deletes what there is to delete, or nothing while another process does it. What fails is
        logged and done the next time."""
        try:
            with suppress(TimeoutError), self._turns.taken(patience=0):
                self._delete_aged()
                self._delete_beyond_size()
        except OSError as error:
            self._log.warning("%s: payloads could not be tidied up: %s", self._tree.root, error)

    def stop(self) -> None:
        """Lets :meth:`run` end soon."""
        self._stopping.set()

    def _delete_aged(self) -> None:
        oldest = self._clock.time() - self._seconds
        for hour in self._hours():
            if _end(hour) > oldest or self._stopping.is_set():
                return
            self._delete_hour(hour)

    def _delete_beyond_size(self) -> None:
        hours = self._hours()
        extents = {}
        for hour in hours:
            if self._stopping.is_set():
                return
            extents[hour] = self._extent(hour)
        self._extents = extents
        beyond = sum(one.size for one in extents.values()) - self._size
        for hour in hours:
            if beyond <= 0 or self._stopping.is_set():
                return
            if extents[hour].size <= beyond:
                beyond -= extents[hour].size
                self._delete_hour(hour)
            else:
                beyond -= self._delete_oldest(hour, beyond)

    def _hours(self) -> list[Hour]:
        """Oldest first."""
        return sorted(
            Hour(day, hour)
            for day in _names(self._tree, _DAY, None)
            for hour in _names(self._tree, _HOUR, day)
        )

    def _extent(self, hour: Hour) -> Extent:
        known = self._extents.get(hour)
        with self._tree.opened(hour) as directory:
            changed = os.fstat(directory).st_mtime_ns
            if known is not None and known.changed == changed:
                return known
            found = {one.name: one.stat(follow_symlinks=False) for one in os.scandir(directory)}
            parts = [name for name in found if name.endswith(PART)]
            for name in parts:
                if found[name].st_mtime < time.time() - AN_HOUR:
                    # Whoever wrote it was killed.
                    os.unlink(name, dir_fd=directory)
        # A change within the same tick of the file system's clock would not be told.
        settled = not parts and time.time_ns() - changed > A_WHILE
        return Extent(sum(one.st_size for one in found.values()), changed if settled else 0)

    def _delete_hour(self, hour: Hour) -> None:
        with self._tree.opened(Hour(hour.day, ".")) as day:
            shutil.rmtree(hour.hour, dir_fd=day)
        with suppress(OSError):  # the other hours of the day are there
            (self._tree.root / hour.day).rmdir()
        self._extents.pop(hour, None)
        self._log.info("payloads of %s, %s h: deleted, as retention says", hour.day, hour.hour)

    def _delete_oldest(self, hour: Hour, wanted: int) -> int:
        """Deletes files of an hour, ``wanted`` bytes or more; tells how many bytes it were."""
        deleted = 0
        with self._tree.opened(hour) as directory:
            # Ids are in the order of time.
            for name in sorted(one.name for one in os.scandir(directory) if one.name[0] != "."):
                if deleted >= wanted or self._stopping.is_set():
                    break
                deleted += os.stat(name, dir_fd=directory, follow_symlinks=False).st_size
                os.unlink(name, dir_fd=directory)
        self._extents.pop(hour, None)
        return deleted


def _names(tree: PayloadTree, pattern: re.Pattern[str], day: str | None) -> Iterator[str]:
    """Directories in the root, or in that of a day."""
    with suppress(FileNotFoundError), tree.opened(Hour(day or ".", ".")) as directory:
        for entry in os.scandir(directory):
            if pattern.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False):
                yield entry.name


def _end(hour: Hour) -> float:
    """Seconds since 1970; of a day that is none the beginning of time."""
    try:
        start = datetime.fromisoformat(f"{hour.day}T{hour.hour}").replace(tzinfo=UTC)
    except ValueError:
        return 0.0
    return start.timestamp() + AN_HOUR
