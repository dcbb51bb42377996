"""The files of one sink: the one that is written to, and the rotated ones beside it.

``usage.20260131T090000Z.20260131T101500Z.1.jsonl.gz`` holds records that began in these two
seconds or between them, so that a reader need not open what lies outside its period.
"""

from __future__ import annotations

import gzip
import os
import re
import zlib
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, cast

import msgspec

from relay_gateway_log_file.turns import Turns

COMPRESSED = ".gz"
PARTIAL = ".gz.part"
UNREADABLE = (OSError, EOFError, zlib.error)
"""What reading a damaged or vanished file raises."""
_TIME = r"(\d{8}T\d{6}Z)"


class Segment(msgspec.Struct, frozen=True):
    """A rotated file. Its records began from ``first`` to ``last``, in seconds since 1970, both
    included; ``path`` is its name before it is compressed, ``number`` tells equal times apart."""

    path: Path
    first: int
    last: int
    number: int

    @property
    def compressed(self) -> Path:
        """Its name once it is compressed."""
        return self.path.with_name(self.path.name + COMPRESSED)

    @property
    def partial(self) -> Path:
        """Its name while it is being compressed."""
        return self.path.with_name(self.path.name + PARTIAL)

    def open(self) -> BinaryIO:
        """Its lines. Raises :class:`FileNotFoundError` when it was deleted meanwhile."""
        with suppress(FileNotFoundError):
            return self.path.open("rb")
        return cast("BinaryIO", gzip.open(self.compressed, "rb"))

    def size(self) -> int:
        """Bytes on disk; 0 when it was deleted meanwhile."""
        for path in (self.path, self.compressed):
            with suppress(FileNotFoundError):
                return path.stat().st_size
        return 0

    def delete(self) -> None:
        """Removes it in whichever form it is there."""
        self.path.unlink(missing_ok=True)
        self.compressed.unlink(missing_ok=True)


class Folder:
    """Names, turns and lists of the files around ``active``."""

    def __init__(self, active: Path) -> None:
        self.active = active
        self.writing = Turns(active.with_name(f".{active.name}.lock"))
        self.tidying = Turns(active.with_name(f".{active.name}.tidy.lock"))
        name = rf"{re.escape(active.stem)}\.{_TIME}\.{_TIME}\.(\d{{1,9}}){re.escape(active.suffix)}"
        self._name = re.compile(rf"({name})(\.gz(?:\.part)?)?", re.ASCII)

    def make(self) -> None:
        """Makes the directory, for its owner only."""
        self.active.parent.mkdir(mode=0o700, parents=True, exist_ok=True)

    def segments(self) -> list[Segment]:
        """The rotated files, newest first."""
        found = {segment.path: segment for segment, form in self._forms() if form != PARTIAL}
        return sorted(found.values(), key=lambda one: (one.last, one.first, one.number))[::-1]

    def partials(self) -> list[Path]:
        """What a compression that did not end has left behind."""
        return [segment.partial for segment, form in self._forms() if form == PARTIAL]

    def new_segment(self, first: int, last: int) -> Segment:
        """A name that is not taken; whoever asks has the turn to write."""
        taken = [one.number for one in self.segments() if (one.first, one.last) == (first, last)]
        number = max(taken, default=0) + 1
        stem, suffix = self.active.stem, self.active.suffix
        name = f"{stem}.{_compact(first)}.{_compact(last)}.{number}{suffix}"
        return Segment(self.active.with_name(name), first, last, number)

    def _names(self) -> set[str]:
        """All names in the directory, in one of two listings. A file whose name changes while the
        directory is listed, as in another thread or process that compresses it, may be missed under
        both of its names; it is in the next listing, because it is renamed only once."""
        return {path.name for _ in range(2) for path in self.active.parent.iterdir()}

    def sync(self) -> None:
        """Makes new names outlive a power cut."""
        sync_directory(self.active.parent)

    def _forms(self) -> Iterator[tuple[Segment, str]]:
        for name in self._names():
            found = self._name.fullmatch(name)
            if found is None:
                continue
            with suppress(ValueError):  # the thirteenth month: not one of ours
                first, last = _seconds(found[2]), _seconds(found[3])
                plain = self.active.with_name(found[1])
                yield Segment(plain, first, last, int(found[4])), found[5] or ""


def sync_directory(path: Path) -> None:
    """Makes the names in a directory outlive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _compact(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()[:19].translate(_SEPARATORS) + "Z"


def _seconds(compact: str) -> int:
    return int(datetime.fromisoformat(compact).timestamp())


_SEPARATORS = str.maketrans("", "", "-:")
