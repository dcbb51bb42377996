"""File systems that fail as they are told: at one call, at every call, or when they are full."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from relay_gateway.delivery.disk import Disk

T = TypeVar("T")

CHANGING = ("make_directory", "create", "write", "sync", "sync_directory", "truncate", "rename",
            "unlink", "remove_directory")  # fmt: skip
"""Calls that a failing disk counts."""


class FailingDisk(Disk):
    """Fails the ``nth`` call (from 1) of those that change something, once; with ``short`` a write
    is cut short instead. ``calls`` counts them."""

    def __init__(self, nth: int = 0, error: int = errno.EIO, *, short: bool = False) -> None:
        self.calls = 0
        self.failed: str | None = None
        """The call that was failed."""
        self._nth = nth
        self._error = error
        self._short = short

    def _counted(self, name: str, call: Callable[[], T]) -> T:
        self.calls += 1
        if self.calls == self._nth:
            self.failed = name
            raise OSError(self._error, os.strerror(self._error))
        return call()

    def make_directory(self, path: Path) -> None:
        self._counted("make_directory", lambda: super(FailingDisk, self).make_directory(path))

    def create(self, path: Path) -> int:
        return self._counted("create", lambda: super(FailingDisk, self).create(path))

    def write(self, descriptor: int, data: bytes | bytearray) -> int:
        if self._short and self.calls + 1 == self._nth:
            self.calls += 1
            self.failed = "write"
            return super().write(descriptor, data[: len(data) // 2])
        return self._counted("write", lambda: super(FailingDisk, self).write(descriptor, data))

    def sync(self, descriptor: int) -> None:
        self._counted("sync", lambda: super(FailingDisk, self).sync(descriptor))

    def sync_directory(self, path: Path) -> None:
        self._counted("sync_directory", lambda: super(FailingDisk, self).sync_directory(path))

    def truncate(self, path: Path, length: int) -> None:
        self._counted("truncate", lambda: super(FailingDisk, self).truncate(path, length))

    def rename(self, path: Path, to: Path) -> None:
        self._counted("rename", lambda: super(FailingDisk, self).rename(path, to))

    def unlink(self, path: Path) -> None:
        self._counted("unlink", lambda: super(FailingDisk, self).unlink(path))

    def remove_directory(self, path: Path) -> None:
        self._counted("remove_directory", lambda: super(FailingDisk, self).remove_directory(path))


class SmallDisk(Disk):
    """Holds at most ``room`` bytes in the files of one directory tree, as a full file system; what
    is removed makes room again. Writes are cut short where they meet the end."""

    def __init__(self, root: Path, room: int) -> None:
        self.room = room
        self._root = root

    def write(self, descriptor: int, data: bytes | bytearray) -> int:
        left = self.room - self.used
        if left <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(descriptor, data[:left])

    @property
    def used(self) -> int:
        """Bytes in all files."""
        return sum(path.stat().st_size for path in self._root.rglob("*") if path.is_file())
