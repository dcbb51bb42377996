"""The one place that says which snapshot is current, where it is from and how old it is."""

from __future__ import annotations

import time
from typing import Literal

from relay_gateway.catalog.snapshot import Snapshot

Source = Literal["database", "disk"]


class LiveCatalog:
    """Holds the current snapshot; requests read ``current`` once and keep what they got.

    ``loaded`` is false until there is a first snapshot; ``serves`` until then, too, and again when
    the snapshot has become too old. ``error`` is the reason why the catalog cannot be read anew,
    ``None`` as long as it can. ``confirmed_at`` is when the snapshot was last known to be what the
    database has, in seconds since the epoch; ``applied_at`` is when it became the current one, by
    the monotonic clock.
    """

    __slots__ = ("applied_at", "confirmed_at", "current", "error", "loaded", "serves", "source")

    def __init__(self) -> None:
        self.current = Snapshot()
        self.loaded = False
        self.serves = False
        self.error: str | None = None
        self.source: Source | None = None
        self.confirmed_at = 0.0
        self.applied_at = 0.0

    @property
    def age(self) -> float:
        """Seconds since the snapshot was last known to be what the database has."""
        return max(0.0, time.time() - self.confirmed_at)

    def swap(self, snapshot: Snapshot) -> None:
        """Makes ``snapshot`` the current one, whole: it is what the database has now."""
        self._put(snapshot)
        self.confirm()

    def confirm(self) -> None:
        """The current snapshot is what the database has now."""
        self.error = None
        self.source = "database"
        self.confirmed_at = time.time()
        self.serves = self.loaded

    def restore(self, snapshot: Snapshot, confirmed_at: float) -> None:
        """Makes a ``snapshot`` from disk the current one, for a database that cannot be asked."""
        self._put(snapshot)
        self.serves = True
        self.source = "disk"
        self.confirmed_at = confirmed_at

    def reject(self, reason: str) -> None:
        """Keeps the last good snapshot and remembers why there is no newer one."""
        self.error = reason

    def expire(self) -> None:
        """Serves no more until a snapshot is confirmed."""
        self.serves = False

    def _put(self, snapshot: Snapshot) -> None:
        self.current = snapshot
        self.loaded = True
        self.applied_at = time.monotonic()
