"""Writers that count together in shared entities: what is lost or out of order shows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from relay_gateway.errors import VersionConflictError
from relay_gateway.storage import AuditLog, CatalogStore, EntityChange, NewEntity
from relay_gateway.storage.audit import AuditQuery

KIND = "provider"


@dataclass(frozen=True, slots=True)
class Counted:
    """What came of it: the sum of all counters, how often a writer had to begin again because
    another was first, and the revisions of all writes in the order of their commits."""

    total: int
    conflicts: int
    revisions: Sequence[int]


async def count_together(
    stores: Sequence[CatalogStore], log: AuditLog, *, writers: int, writes: int, counters: int
) -> Counted:
    """Has each of ``writers`` add one ``writes`` times, by reading a counter and writing it with
    the version that was read; writers take the stores and the counters in turn.

    The order of commits is that of audit records, of which each holds the hash of the one before.
    """
    rows = await stores[0].write_all([_counter(number) for number in range(counters)])
    first = await stores[0].revision()
    conflicts = await asyncio.gather(
        *(_count(stores[n % len(stores)], rows[n % counters].id, writes) for n in range(writers))
    )
    total = sum([int((await stores[0].get(KIND, row.id)).description) for row in rows])
    return Counted(total, sum(conflicts), await _revisions(log, first))


def _counter(number: int) -> NewEntity:
    return NewEntity(kind=KIND, display_name=f"Counter {number}", spec={}, description="0")


async def _count(store: CatalogStore, counter: str, writes: int) -> int:
    conflicts = 0
    for _ in range(writes):
        while not await _add_one(store, counter):
            conflicts += 1
    return conflicts


async def _add_one(store: CatalogStore, counter: str) -> bool:
    row = await store.get(KIND, counter)
    change = EntityChange(
        display_name=row.display_name, spec={}, description=str(int(row.description) + 1)
    )
    try:
        await store.update(KIND, counter, change, expected_version=row.version)
    except VersionConflictError:
        return False
    return True


async def _revisions(log: AuditLog, after: int) -> list[int]:
    """The revisions of all audit records, oldest first, of which the first is after ``after``."""
    revisions: list[int] = []
    before: int | None = None
    while True:
        page = await log.page(AuditQuery(limit=1000, before=before))
        revisions += [r.revision for r in page if r.revision is not None and r.revision > after]
        if len(page) < 1000 or (page[-1].revision or 0) <= after:
            return revisions[::-1]
        before = page[-1].sequence
