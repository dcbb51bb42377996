"""The ids of the records that were stored last, so that none is stored twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from relay_gateway.plugin import UsageRecord


class RecentIds:
    """Remembers ``size`` ids at least and twice as many, and one batch, at most: two generations,
    of which the older goes when the newer is full."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._generations: tuple[set[str], set[str]] = (set(), set())

    def unknown(self, records: Sequence[UsageRecord]) -> list[UsageRecord]:
        """The first of each id among ``records`` that is not remembered."""
        newer, older = self._generations
        fresh: dict[str, UsageRecord] = {}
        for record in records:
            if record.request_id not in newer and record.request_id not in older:
                fresh.setdefault(record.request_id, record)
        return list(fresh.values())

    def add(self, ids: Iterable[str]) -> None:
        """Remembers ``ids``."""
        newer, _ = self._generations
        newer.update(ids)
        if len(newer) >= self._size:
            self._generations = (set(), newer)
