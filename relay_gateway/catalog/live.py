"""The one place that says which snapshot is current."""

from __future__ import annotations

from relay_gateway.catalog.snapshot import Snapshot


class LiveCatalog:
    """Holds the current snapshot; requests read ``current`` once and keep what they got.

    ``loaded`` is false until the first snapshot has been swapped in; ``error`` is the reason why
    the last build was rejected, ``None`` after a good one.
    """

    __slots__ = ("current", "error", "loaded")

    def __init__(self) -> None:
        self.current = Snapshot()
        self.loaded = False
        self.error: str | None = None

    def swap(self, snapshot: Snapshot) -> None:
        """Makes ``snapshot`` the current one, whole."""
        self.current = snapshot
        self.loaded = True
        self.error = None

    def reject(self, reason: str) -> None:
        """Keeps the last good snapshot and remembers why there is no newer one."""
        self.error = reason
