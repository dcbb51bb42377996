"""Which gateways are on the database: what each of their processes said last, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import BigInteger, ColumnElement, case, delete, literal, literal_column, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from relay_gateway.storage.engine import reading, writing
from relay_gateway.storage.revision import current_revision
from relay_gateway.storage.tables import catalog_revision, instances
from relay_gateway.storage.upsert import insert_into

# Each the same wherever it stands in a statement.
_CLOCKS = {
    "postgresql": "CAST(extract(epoch FROM statement_timestamp()) * 1000 AS BIGINT)",
    "sqlite": "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
}


class SelfDescription(msgspec.Struct, frozen=True, kw_only=True):
    """What one process says of itself.

    ``gateway_id`` and ``process`` tell which it is, ``gateway`` and ``instance`` are names for
    people; ``instance`` is that of its usage records. ``degraded`` maps parts that do not work to
    the reason. ``revision`` is ``None`` without a catalog.
    """

    gateway_id: str
    process: str
    gateway: str
    instance: str
    version: str
    state: str
    degraded: Mapping[str, str]
    revision: int | None


class LifeSign(SelfDescription, frozen=True, kw_only=True):
    """The same, said now. ``age`` are the seconds since the process started, ``applied_age`` those
    since it serves ``revision``, ``None`` without one."""

    age: float
    applied_age: float | None


class KnownInstance(SelfDescription, frozen=True, kw_only=True):
    """The same, as it was last heard. Times are milliseconds since the epoch by the clock of the
    database; ``current_at`` is when the process was last known to serve the newest revision."""

    started_at: int
    applied_at: int | None
    current_at: int
    seen_at: int


class KnownInstances(msgspec.Struct, frozen=True):
    """All that are known at ``now``, by the clock of the database in milliseconds since the epoch,
    when ``newest`` is the revision of the catalog."""

    now: int
    newest: int
    known: Sequence[KnownInstance]


class InstanceStore:
    """Signs of life. Every method raises :class:`StorageUnavailableError` when the database cannot
    be asked; the revision of the catalog never changes."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def note(self, sign: LifeSign) -> None:
        """Writes down ``sign`` as that of now, in place of the one before."""
        async with writing(self._engine) as connection:
            now = _now(connection)
            started = now - _milliseconds(sign.age)
            applied = None if sign.applied_age is None else now - _milliseconds(sign.applied_age)
            newest = select(catalog_revision.c.revision).scalar_subquery()
            is_current = literal(sign.revision, BigInteger) >= newest
            statement = insert_into(connection.dialect.name, instances).values(
                gateway_id=sign.gateway_id,
                process=sign.process,
                gateway=sign.gateway,
                instance=sign.instance,
                version=sign.version,
                state=sign.state,
                degraded=dict(sign.degraded),
                revision=sign.revision,
                started_at=started,
                applied_at=applied,
                current_at=case((is_current, now), else_=started),
                seen_at=now,
            )
            new, old = statement.excluded, instances.c
            same_process = old.instance == new.instance
            same_snapshot = same_process & (old.revision == new.revision)
            said = ("gateway", "instance", "version", "state", "degraded", "revision", "seen_at")
            changes: dict[str, Any] = {name: new[name] for name in said}
            changes["started_at"] = case((same_process, old.started_at), else_=new.started_at)
            changes["applied_at"] = case((same_snapshot, old.applied_at), else_=new.applied_at)
            changes["current_at"] = case((is_current, new.seen_at), else_=old.current_at)
            await connection.execute(
                statement.on_conflict_do_update(
                    index_elements=["gateway_id", "process"], set_=changes
                )
            )

    async def forget(self, gateway_id: str, process: str) -> None:
        """Forgets a process that ends."""
        own = (instances.c.gateway_id == gateway_id) & (instances.c.process == process)
        async with writing(self._engine) as connection:
            await connection.execute(delete(instances).where(own))

    async def tidy(
        self, gateway_id: str, gateway: str, *, silent_seconds: float, keep_seconds: float
    ) -> None:
        """Forgets who was not heard of for ``keep_seconds``, and already after ``silent_seconds``
        who had the name of the gateway ``gateway_id``, which has taken its place."""
        columns = instances.c
        async with writing(self._engine) as connection:
            unheard = _now(connection) - columns.seen_at
            replaced = (columns.gateway == gateway) & (columns.gateway_id != gateway_id)
            await connection.execute(
                delete(instances).where(
                    (unheard > _milliseconds(keep_seconds))
                    | (replaced & (unheard > _milliseconds(silent_seconds)))
                )
            )

    async def known(self, limit: int) -> KnownInstances:
        """The ``limit`` processes that were heard of last, the latest first."""
        names = KnownInstance.__struct_fields__
        async with reading(self._engine) as connection:
            newest = await current_revision(connection)
            rows = await connection.execute(
                select(*(instances.c[name] for name in names))
                .order_by(instances.c.seen_at.desc(), instances.c.gateway_id, instances.c.process)
                .limit(limit)
            )
            known = [KnownInstance(**row) for row in rows.mappings()]
            now: int = (await connection.execute(select(_now(connection)))).scalar_one()
        return KnownInstances(now, newest, known)


def _now(connection: AsyncConnection) -> ColumnElement[int]:
    return literal_column(_CLOCKS[connection.dialect.name], BigInteger)


def _milliseconds(seconds: float) -> int:
    return int(seconds * 1000)
