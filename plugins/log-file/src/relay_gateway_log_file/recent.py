"""The ids of the records that were written last, so that none is written twice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from relay_gateway.plugin import UsageRecord

REMEMBERED = 20_000
"""Ids that are remembered at least; up to twice as many take some 5 MB."""


class RecentIds:
    """Two sets of ids: when the newer one is full, it takes the place of the older one."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._newer: set[str] = set()
        self._older: set[str] = set()

    def unknown(self, records: Sequence[UsageRecord]) -> dict[str, UsageRecord]:
        """Those of ``records`` whose ids are not remembered, by id: the first of each."""
        newer, older = self._newer, self._older
        fresh: dict[str, UsageRecord] = {}
        for record in records:
            request_id = record.request_id
            if request_id not in newer and request_id not in older and request_id not in fresh:
                fresh[request_id] = record
        return fresh

    def add(self, ids: Iterable[str]) -> None:
        """Remembers ``ids``."""
        self._newer.update(ids)
        if len(self._newer) >= self._remembered:
            self._newer, self._older = set(), self._newer
