"""Failed logins in the database, so that instances throttle together what comes to all of them."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence

from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.ids import new_id
from relay_gateway.storage.audit import AuditEvent, record
from relay_gateway.storage.engine import reading, writing
from relay_gateway.storage.tables import login_failures

NEWEST = 13
"""So many failures decide about the longest delay; older ones change nothing."""
SKEW_SECONDS = 300
"""A failure further in the future is of a clock that was set back since, and counts no more."""


class LoginFailures:
    """Failures by what they are counted under. Times are seconds since the epoch, by the clocks of
    the instances. Every method raises :class:`StorageUnavailableError` when the database cannot be
    asked."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def of(
        self, keys: Sequence[str], now: float, window: float
    ) -> Mapping[str, Sequence[float]]:
        """The moments of the newest failures under each key within ``window`` seconds, oldest
        first."""
        digests = {_digest(key): key for key in keys}
        columns = login_failures.c
        statement = (
            select(columns.key_digest, columns.failed_at)
            .where(
                columns.key_digest.in_(digests),
                columns.failed_at > int((now - window) * 1000),
                columns.failed_at < int((now + SKEW_SECONDS) * 1000),
            )
            .order_by(columns.failed_at.desc())
            .limit(NEWEST * len(keys) * 8)
        )
        found: defaultdict[str, list[float]] = defaultdict(list)
        async with reading(self._engine) as connection:
            for digest, failed_at in await connection.execute(statement):
                found[digests[digest]].insert(0, failed_at / 1000)
        return found

    async def add(self, keys: Sequence[str], now: float, window: float, event: AuditEvent) -> None:
        """Counts a failure and records ``event`` in the audit log; forgets what is older than
        ``window``."""
        failure_id, failed_at = new_id(), int(now * 1000)
        rows = [
            {"failure_id": failure_id, "key_digest": _digest(key), "failed_at": failed_at}
            for key in keys
        ]
        old = login_failures.c.failed_at < int((now - window) * 1000)
        async with writing(self._engine) as connection:
            await connection.execute(delete(login_failures).where(old))
            await connection.execute(insert(login_failures), rows)
            await record(connection, event)

    async def forget(self, key: str) -> None:
        """Forgets the failures under ``key``."""
        async with writing(self._engine) as connection:
            await connection.execute(
                delete(login_failures).where(login_failures.c.key_digest == _digest(key))
            )


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
