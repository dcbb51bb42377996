"""One file for each payload, below a directory for each hour: ``2026-01-31/09/<id>.json.gz``.

Names come from the id that the gateway gave the request, and from nothing else. What is below the
directory that was configured is reached step by step, by descriptors, through no symbolic link.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Final
from uuid import UUID

import msgspec

from relay_gateway_log_file.output import write_whole

PART: Final = ".part"
"""The end of names of files that are being written."""
LARGEST: Final = 256 * 1024 * 1024
"""Bytes of a file that is read at most."""
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_NEW: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Not waiting: what has this name could be a pipe.
_OLD: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class Hour(msgspec.Struct, frozen=True, order=True):
    """The directory of an hour (UTC)."""

    day: str
    hour: str


class Place(msgspec.Struct, frozen=True):
    """Where the payload of a request is."""

    hour: Hour
    name: str


def place_of(request_id: str) -> Place | None:
    """The only place for a request; ``None`` for an id that is not one of the gateway's."""
    try:
        number = UUID(request_id)
    except ValueError:
        return None
    if number.version != 7 or str(number) != request_id:
        return None
    moment = datetime.fromtimestamp((number.int >> 80) / 1000, UTC)
    return Place(Hour(f"{moment:%Y-%m-%d}", f"{moment:%H}"), f"{request_id}.json.gz")


class PayloadTree:
    """The files below ``root``. Methods run in threads and raise :class:`OSError`."""

    def __init__(self, root: Path, *, synced: bool) -> None:
        self.root = root
        self._synced = synced

    def make(self) -> None:
        """Makes the directory, for its owner only, and finds out whether it can be used."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not os.access(self.root, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self.root))

    def write(self, hour: Hour, files: Mapping[str, bytes]) -> None:
        """Writes files of one hour, each of them whole or not at all, in place of those that have
        these names."""
        with self.opened(hour, make=True) as directory:
            for name, data in files.items():
                self._write(directory, name, data)
            if self._synced:
                os.fsync(directory)

    def read(self, place: Place) -> bytes | None:
        """What the file holds, or ``None`` where there is none."""
        try:
            with self.opened(place.hour) as directory:
                descriptor = os.open(place.name, _OLD, dir_fd=directory)
        except FileNotFoundError:
            return None
        with open(descriptor, "rb") as file:  # noqa: PTH123 - a descriptor
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
                raise OSError(errno.EINVAL, f"{place.name} is no payload that was written here")
            return file.read()

    @contextmanager
    def opened(self, hour: Hour, *, make: bool = False) -> Iterator[int]:
        """The directory of an hour. Raises :class:`FileNotFoundError` when it is not there."""
        with (
            _directory(str(self.root)) as root,
            self._below(root, hour.day, make=make) as day,
            self._below(day, hour.hour, make=make) as directory,
        ):
            yield directory

    @contextmanager
    def _below(self, parent: int, name: str, *, make: bool) -> Iterator[int]:
        if make:
            with suppress(FileExistsError):
                os.mkdir(name, 0o700, dir_fd=parent)
                if self._synced:
                    os.fsync(parent)
        with _directory(name, parent) as descriptor:
            yield descriptor

    def _write(self, directory: int, name: str, data: bytes) -> None:
        part = f".{name}.{os.urandom(6).hex()}{PART}"
        descriptor = os.open(part, _NEW, 0o600, dir_fd=directory)
        try:
            try:
                write_whole(descriptor, data)
                if self._synced:
                    os.fdatasync(descriptor)
            finally:
                os.close(descriptor)
            os.rename(part, name, src_dir_fd=directory, dst_dir_fd=directory)
        except BaseException:
            with suppress(OSError):
                os.unlink(part, dir_fd=directory)
            raise


@contextmanager
def _directory(name: str, parent: int | None = None) -> Iterator[int]:
    """Opens a directory; below ``parent`` a symbolic link is refused."""
    flags = _DIRECTORY if parent is None else _DIRECTORY | os.O_NOFOLLOW
    descriptor = os.open(name, flags, dir_fd=parent)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
