"""How upstreams were asked and what came of it."""

from __future__ import annotations

from collections.abc import Iterator

from relay_gateway.observe import families
from relay_gateway.observe.bounded import OTHER, Slugs
from relay_gateway.observe.series import Series, series_of
from relay_gateway.plugin.usage import Attempt

MAX_RESULTS = 5000
"""How many pairs of a host and a result are told apart; later ones count as ``other`` of their
host, and those of hosts that are new by then as ``other`` of ``other``."""
OK = "ok"


class Attempts:
    """Counts attempts by host and result."""

    __slots__ = ("_counts", "_hosts", "_slugs")

    def __init__(self, slugs: Slugs) -> None:
        self._slugs = slugs
        self._hosts: dict[str, str] = {}
        self._counts: dict[tuple[str, str | None], int] = {}

    def add(self, attempts: tuple[Attempt, ...]) -> None:
        """Counts the attempts of one request."""
        counts = self._counts
        for attempt in attempts:
            key = (attempt.host_id, attempt.error)
            if key in counts:
                counts[key] += 1
            else:
                self._first(attempt.host_id, attempt.error)

    def series(self) -> Iterator[Series]:
        """What was counted so far."""
        for (host_id, error), count in self._counts.items():
            yield series_of(families.ATTEMPTS, count, self._hosts[host_id], error or OK)

    def _first(self, host_id: str, error: str | None) -> None:
        if len(self._counts) >= MAX_RESULTS:
            error = OTHER
            host_id = host_id if host_id in self._hosts else OTHER
        if host_id not in self._hosts:
            self._hosts[host_id] = self._slugs.host(host_id)
        key = (host_id, error)
        self._counts[key] = self._counts.get(key, 0) + 1
