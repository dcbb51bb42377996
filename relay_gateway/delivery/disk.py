"""The file system as the spool uses it: every call that can fail, in one place."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC


class Disk:
    """Calls of the operating system. All raise :class:`OSError`; tests hand in one that fails."""

    def make_directory(self, path: Path) -> None:
        """Makes a directory and those above it, for the owner alone."""
        path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def names(self, path: Path) -> list[str]:
        """The names in a directory, sorted; none where there is no such directory."""
        try:
            return sorted(entry.name for entry in path.iterdir())
        except FileNotFoundError:
            return []

    def create(self, path: Path) -> int:
        """A new file to append to; it must not exist."""
        return os.open(path, _APPEND, 0o600)

    def write(self, descriptor: int, data: bytes | bytearray) -> int:
        """One write; answers how many bytes were taken."""
        return os.write(descriptor, data)

    def sync(self, descriptor: int) -> None:
        """Returns when the data written so far would survive a loss of power."""
        os.fdatasync(descriptor)

    def sync_directory(self, path: Path) -> None:
        """As :meth:`sync`, of the names in a directory."""
        with self._opened(path) as descriptor:
            os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        """Gives the descriptor back."""
        os.close(descriptor)

    def size(self, path: Path) -> int:
        """Length of a file in bytes."""
        return path.lstat().st_size

    def read(self, path: Path, offset: int, length: int) -> bytes:
        """At most ``length`` bytes from ``offset`` on."""
        with self._opened(path) as descriptor:
            return os.pread(descriptor, length, offset)

    def truncate(self, path: Path, length: int) -> None:
        """Cuts a file off."""
        os.truncate(path, length)

    def write_file(self, path: Path, data: bytes) -> None:
        """Writes a small file whole or not at all."""
        beside = path.with_name(f".{path.name}.new")
        with contextlib.suppress(FileNotFoundError):
            self.unlink(beside)
        descriptor = self.create(beside)
        try:
            if self.write(descriptor, data) != len(data):
                raise OSError(f"{beside} was not written whole")
        finally:
            self.close(descriptor)
        self.rename(beside, path)

    def append_line(self, path: Path, data: bytes) -> None:
        """Adds to a file, which is made where it is missing, and syncs it."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        try:
            if self.write(descriptor, data) != len(data):
                raise OSError(f"{path} was not written whole")
            self.sync(descriptor)
        finally:
            self.close(descriptor)

    def rename(self, path: Path, to: Path) -> None:
        """Gives a file or directory another name, in place of what has it."""
        path.rename(to)

    def unlink(self, path: Path) -> None:
        """Removes a file."""
        path.unlink()

    def remove_directory(self, path: Path) -> None:
        """Removes an empty directory."""
        path.rmdir()

    def lock(self, path: Path) -> int | None:
        """A descriptor that holds the lock of this file, ``None`` while somebody else has it."""
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(path, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Whoever removed the directory a moment ago has left only the file's descriptor.
            if os.fstat(descriptor).st_ino == path.lstat().st_ino:
                return descriptor
        except (BlockingIOError, FileNotFoundError):
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    @contextlib.contextmanager
    def _opened(self, path: Path) -> Iterator[int]:
        descriptor = os.open(path, _READ)
        try:
            yield descriptor
        finally:
            os.close(descriptor)
