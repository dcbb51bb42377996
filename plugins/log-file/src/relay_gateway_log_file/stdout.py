"""Standard output as the place of the lines: for containers whose output somebody collects."""

from __future__ import annotations

import os
from collections.abc import Sequence

from relay_gateway.plugin import UsageRecord
from relay_gateway_log_file.lines import lines_of
from relay_gateway_log_file.recent import RecentIds
from relay_gateway_log_file.turns import Turns

DESCRIPTOR = 1


class StandardOutput:
    """Lines on a descriptor that cannot be taken back. Workers take turns."""

    def __init__(self, turns: Turns, descriptor: int = DESCRIPTOR) -> None:
        self._turns = turns
        self._descriptor = descriptor
        self._recent = RecentIds()
        self._left = memoryview(b"")

    def write(self, records: Sequence[UsageRecord]) -> bool:
        """Writes a batch with one call, as a rule."""
        # A pipe takes a batch in pieces, between which another worker could write.
        with self._turns.taken():
            self._finish()
            fresh = self._recent.unknown(records)
            self._left = memoryview(lines_of(fresh.values()))
            self._recent.add(fresh)
            self._finish()
        return False

    def _finish(self) -> None:
        """Writes what is left, so that a line that was begun gets its end."""
        while self._left:
            done = os.write(self._descriptor, self._left)
            self._left = self._left[done:]

    def sync(self) -> None:
        """Does nothing: whoever reads it is responsible."""

    def close(self) -> None:
        """Does nothing: standard output belongs to the process."""
