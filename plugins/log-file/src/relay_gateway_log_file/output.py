"""What a sink writes its batches to, and how it says that it cannot."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.plugin import UsageRecord


class Output(Protocol):
    """Takes batches, in a thread. Every method raises :class:`OSError` when it cannot do it."""

    def write(self, records: Sequence[UsageRecord]) -> bool:
        """Stores a batch; tells whether a file was rotated."""

    def sync(self) -> None:
        """Makes what was written outlive a power cut."""

    def close(self) -> None:
        """Makes everything outlive a power cut, unless that is not wanted, and ends."""


def write_whole(descriptor: int, data: bytes) -> None:
    """Writes ``data``, as a rule with one call. After an error part of it may be written."""
    done = os.write(descriptor, data)
    while done < len(data):
        # What is nearly full takes a part; the next call says why not the rest.
        done += os.write(descriptor, memoryview(data)[done:])


@contextmanager
def unavailable(what: str, section: str = "usage_sinks.file") -> Iterator[None]:
    """Turns :class:`OSError` into :class:`StorageUnavailableError` with the reason; ``section`` is
    where an operator says what to use instead."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise StorageUnavailableError(
            f"{what} cannot be used right now: {reason}; check the disk, its space and what "
            f"[{section}] path says"
        ) from error
