"""Compresses rotated files and deletes those that are kept no longer."""

from __future__ import annotations

import gzip
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO

import msgspec

from relay_gateway.plugin import Clock
from relay_gateway_log_file.folder import Folder, Segment

LEVEL = 3
"""Of gzip; the usual one takes twice the time to save a tenth."""
_PIECE = 256 * 1024


class Retention(msgspec.Struct, frozen=True):
    """What is done with rotated files: ``seconds`` and ``size`` in bytes are ``None`` where they
    are kept."""

    compress: bool
    seconds: float | None
    size: int | None


class Tidier:
    """Works through ``folder`` in a thread; of several processes only one at a time."""

    def __init__(
        self, folder: Folder, retention: Retention, clock: Clock, log: logging.Logger
    ) -> None:
        self._folder = folder
        self._retention = retention
        self._clock = clock
        self._log = log
        self._stopping = threading.Event()

    def run(self) -> None:
        """Does all there is to do, or nothing while another process does it. What fails is logged
        and done the next time."""
        try:
            with suppress(TimeoutError), self._folder.tidying.taken(patience=0):
                self._delete(self._aged())
                self._compress()
                self._delete(self._beyond_size())
        except OSError as error:
            self._log.warning(
                "%s: rotated files could not be tidied up: %s", self._folder.active, error
            )

    def stop(self) -> None:
        """Lets :meth:`run` end soon; a compression that is not done is begun anew some time."""
        self._stopping.set()

    def _aged(self) -> Iterator[Segment]:
        if self._retention.seconds is not None:
            oldest = self._clock.time() - self._retention.seconds
            yield from (one for one in self._folder.segments() if one.last < oldest)

    def _beyond_size(self) -> Iterator[Segment]:
        if self._retention.size is None:
            return
        with suppress(FileNotFoundError):
            total = self._folder.active.stat().st_size
            for segment in self._folder.segments():
                total += segment.size()
                if total > self._retention.size:
                    yield segment

    def _delete(self, segments: Iterator[Segment]) -> None:
        for segment in segments:
            segment.delete()
            self._log.info("%s: deleted, as its retention says", segment.path)

    def _compress(self) -> None:
        for partial in self._folder.partials():
            partial.unlink(missing_ok=True)
        if not self._retention.compress:
            return
        # The newest last: whoever learns its ids reads it faster as it is.
        for segment in reversed(self._folder.segments()):
            if self._stopping.is_set():
                return
            if segment.path.exists():
                self._compress_one(segment)

    def _compress_one(self, segment: Segment) -> None:
        if not segment.compressed.exists():
            try:
                if not self._copy(segment):
                    return
                segment.partial.rename(segment.compressed)
            finally:
                segment.partial.unlink(missing_ok=True)
            self._folder.sync()
        segment.path.unlink()

    def _copy(self, segment: Segment) -> bool:
        descriptor = os.open(segment.partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as partial, segment.path.open("rb") as lines:  # noqa: PTH123
            with gzip.GzipFile("", "wb", LEVEL, partial, mtime=0) as packed:
                finished = self._pass_on(lines, packed)
            partial.flush()
            os.fsync(descriptor)
        return finished

    def _pass_on(self, lines: BinaryIO, packed: gzip.GzipFile) -> bool:
        while piece := lines.read(_PIECE):
            if self._stopping.is_set():
                return False
            packed.write(piece)
        return True
