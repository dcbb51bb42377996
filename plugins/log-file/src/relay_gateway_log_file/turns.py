"""Turns among all who use the same files: threads, processes, and sinks of one process."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE = 10.0
"""Seconds; a turn takes milliseconds, so whoever has it for longer is stopped or stuck."""
_PAUSE = 0.002


class Turns:
    """A lock on the file ``path``, which is made and stays empty.

    Each turn opens the file anew: threads that shared a descriptor would not exclude each other.
    The kernel ends a turn together with the process that has it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def taken(self, patience: float = PATIENCE) -> Iterator[None]:
        """Waits ``patience`` seconds for the turn at most; then raises :class:`TimeoutError`."""
        descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            # Not the waiting kind of flock: a thread inside it would hold up the process's end.
            deadline = time.monotonic() + patience
            while not _acquired(descriptor):
                if time.monotonic() >= deadline:
                    raise TimeoutError(errno.ETIMEDOUT, f"another process holds {self._path}")
                time.sleep(_PAUSE)
            yield
        finally:
            os.close(descriptor)


def _acquired(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
