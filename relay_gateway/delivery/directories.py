"""The directories of spools: each belongs to one process, and to another when that one is gone."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import msgspec

from relay_gateway.delivery.disk import Disk
from relay_gateway.ids import is_id

LOCK = "lock"
ACKNOWLEDGED = "acknowledged"
UNFINISHED = ".new-"
UNFINISHED_SECONDS = 60.0


class Claim(msgspec.Struct, frozen=True):
    """A directory that this process has to itself until the lock is given back."""

    path: Path
    lock: int

    @property
    def spool(self) -> str:
        """The id of the spool."""
        return self.path.name


class Directories:
    """The directories below ``root``. All methods block and raise :class:`OSError`."""

    def __init__(self, root: Path, disk: Disk) -> None:
        self._root = root
        self._disk = disk

    def own(self, spool: str) -> Claim:
        """Makes the directory of the spool with this id. It gets its name when it is locked, so
        that nobody takes it for an orphan."""
        self._disk.make_directory(self._root)
        beside, path = self._root / (UNFINISHED + spool), self._root / spool
        self._disk.make_directory(beside)
        lock = self._disk.lock(beside / LOCK)
        if lock is None:
            raise OSError(f"{beside / LOCK} is locked by somebody else")
        try:
            self._disk.rename(beside, path)
            self._disk.sync_directory(self._root)
        except OSError:
            self._disk.close(lock)
            raise
        return Claim(path, lock)

    def orphans(self) -> list[Claim]:
        """Takes every directory whose process is gone, oldest first."""
        claims = []
        for name in self._disk.names(self._root):
            if name.startswith(UNFINISHED):
                self._clear_unfinished(self._root / name)
            elif is_id(name):
                lock = self._try(self._root / name)
                if lock is not None:
                    claims.append(Claim(self._root / name, lock))
        return claims

    def names(self, claim: Claim) -> list[str]:
        """What is in a directory."""
        return self._disk.names(claim.path)

    def release(self, claim: Claim) -> None:
        """Gives the directory back; whoever looks next takes it."""
        self._disk.close(claim.lock)

    def remove(self, claim: Claim) -> None:
        """Removes the directory with what is left in it, and gives its lock back."""
        try:
            names = self._disk.names(claim.path)
            # Segments in their order, and last what tells that they were delivered.
            for name in [name for name in names if name not in (ACKNOWLEDGED, LOCK)]:
                self._disk.unlink(claim.path / name)
            for name in [name for name in (ACKNOWLEDGED, LOCK) if name in names]:
                self._disk.unlink(claim.path / name)
            self._disk.remove_directory(claim.path)
        finally:
            self._disk.close(claim.lock)

    def _try(self, path: Path) -> int | None:
        try:
            return self._disk.lock(path / LOCK)
        except (FileNotFoundError, NotADirectoryError):
            return None  # removed a moment ago

    def _clear_unfinished(self, path: Path) -> None:
        """Removes what a process has left that was killed while it made its directory."""
        with contextlib.suppress(OSError):
            if time.time() - path.lstat().st_mtime > UNFINISHED_SECONDS:
                for name in self._disk.names(path):
                    self._disk.unlink(path / name)
                self._disk.remove_directory(path)
