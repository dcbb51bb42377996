"""A table of counters in a file that the workers of one machine map into their memory.

Slots have a fixed size. The lock belongs to the kernel, which releases it when its holder is
killed; cells are written in an order that bears an end between any two (see
:mod:`relay_gateway.limits.counters`). Whoever finds the lock held for longer than it takes to count
comes again later: to count without it would be to count wrongly.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import time
from hashlib import blake2b
from pathlib import Path
from typing import Final, cast

from relay_gateway.errors import StateBusyError
from relay_gateway.limits.counters import WIDEST, Cells

WAYS: Final = 8
"""How many slots a counter may be in."""
SLOTS: Final = 262_144
"""How many counters there may be at a time; beyond that, those that would end first are forgotten.
"""
LOCK_SECONDS: Final = 0.002
"""How long to wait for the lock at a time: nothing else happens in the process meanwhile. It is
held for some microseconds, unless its holder is stopped or a busy machine has taken the processor
from it."""
STALL_SECONDS: Final = 0.02
"""For how long not to wait at all after that."""
MAX_PAUSE: Final = 0.0005

_MAGIC: Final = int.from_bytes(b"relaylm2", "little")
_HEAD: Final = 4
"""Words before the generations of the rows: magic, the two halves of the boot's id, the offset."""
_SLOT_HEAD: Final = 4
"""Words before the cells of a slot: the two halves of the key's digest, the strategy, the end."""
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Table:
    """The mapped file. ``words`` and ``numbers`` are the same memory, as integers and as doubles.
    ``offset`` is from the monotonic clock to the wall clock as it stood when the table was made."""

    def __init__(self, directory: Path, rows: int, offset: float, slots: int = SLOTS) -> None:
        self.rows = rows
        self._buckets = slots // WAYS
        self._size = _SLOT_HEAD + max(WIDEST, 2 * rows)
        self._base = _HEAD + rows
        words = self._base + slots * self._size
        self._file = os.open(
            directory / f"table-{rows}-{slots}",
            os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW,
            0o600,
        )
        self._stalled_until = 0.0
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            if os.fstat(self._file).st_size != words * 8:
                os.ftruncate(self._file, 0)
                # Whoever writes into a hole of a file on a full disk is killed.
                os.posix_fallocate(self._file, 0, words * 8)
            self._map = mmap.mmap(self._file, words * 8)
            self.words = memoryview(self._map).cast("Q")
            self.numbers = memoryview(self._map).cast("d")
            self._begin(offset)
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        self.offset = self.numbers[3]

    def lock(self) -> None:
        """Takes the lock. Raises :class:`StateBusyError` when it is not to be had now."""
        if self._try_lock():
            return
        began = time.monotonic()
        if began >= self._stalled_until:
            pause = 0.0
            while time.monotonic() < began + LOCK_SECONDS:
                time.sleep(pause)
                if self._try_lock():
                    return
                pause = min(MAX_PAUSE, pause + MAX_PAUSE / 16)
            self._stalled_until = time.monotonic() + STALL_SECONDS
        raise StateBusyError("another process does not let go of the table of limits")

    def unlock(self) -> None:
        """Lets go of the lock."""
        fcntl.flock(self._file, fcntl.LOCK_UN)

    def find(self, digest: tuple[int, int], strategy: int) -> int:
        """The place of the cells of a counter, a new one if there is none of its strategy."""
        first = self._base + digest[0] % self._buckets * WAYS * self._size
        free, words, numbers = first, self.words, self.numbers
        for place in range(first, first + WAYS * self._size, self._size):
            if words[place] == digest[0] and words[place + 1] == digest[1]:
                if words[place + 2] == strategy:
                    return place + _SLOT_HEAD
                free = place
                break
            if numbers[place + 3] < numbers[free + 3]:
                free = place
        self._clear(free, digest, strategy)
        return free + _SLOT_HEAD

    def holds(self, place: int, digest: tuple[int, int], strategy: int) -> bool:
        """Whether the cells at ``place`` are still those of the counter."""
        words = self.words
        return (
            words[place - 4] == digest[0]
            and words[place - 3] == digest[1]
            and words[place - 2] == strategy
        )

    def keep_until(self, place: int, end: float) -> None:
        """Keeps the counter whose cells are at ``place``."""
        self.numbers[place - 1] = end

    def cells(self, place: int, width: int) -> Cells:
        """The cells of a counter."""
        return _as_cells(self.numbers[place : place + width])

    def generations(self) -> Cells:
        """One number for each row; what was counted under another one is void."""
        return _as_cells(self.numbers[_HEAD : _HEAD + self.rows])

    def close(self) -> None:
        """Lets go of the file; the memory goes when nobody looks at it any more."""
        os.close(self._file)

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _begin(self, offset: float) -> None:
        """Empties a table that is new, or is of the time before the machine was started."""
        boot = _boot()
        if (self.words[0], self.words[1], self.words[2]) == (_MAGIC, *boot):
            return
        self.words[0] = 0
        self._map[8:] = bytes(len(self._map) - 8)
        self.words[1], self.words[2] = boot
        self.numbers[3] = offset
        self.words[0] = _MAGIC  # the last: until then it is not a table

    def _clear(self, place: int, digest: tuple[int, int], strategy: int) -> None:
        self.words[place] = self.words[place + 1] = 0
        end = place + self._size
        self.words[place + 2 : end] = memoryview(bytes((self._size - 2) * 8)).cast("Q")
        self.words[place + 2] = strategy
        self.words[place + 1] = digest[1]
        self.words[place] = digest[0]


def _as_cells(view: memoryview[float]) -> Cells:
    """A view of doubles: it has all that counters use of a mutable sequence."""
    return cast("Cells", view)


def digest_of(key: str) -> tuple[int, int]:
    """What stands for a key in the table."""
    value = blake2b(key.encode(), digest_size=16).digest()
    return int.from_bytes(value[:8], "little") or 1, int.from_bytes(value[8:], "little")


def _boot() -> tuple[int, int]:
    try:
        text = _BOOT_ID.read_bytes()
    except OSError:
        text = b""
    return digest_of(text.decode("ascii", errors="replace"))
