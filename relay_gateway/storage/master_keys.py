"""Master keys in the database: which ones belong to it, and a gate for everything that is sealed.

A sealed reference is a member of an entity's ``sealed`` document that names its ``kind`` (the
secret backend) and the ``keyId`` that it is sealed with. A write is admitted with keys that this
table has and that are not retired; as long as it has none of a backend, with any of its keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from sqlalchemy import Text, cast, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.errors import MasterKeyError
from relay_gateway.storage.audit import AuditEvent, record
from relay_gateway.storage.engine import reading, writing
from relay_gateway.storage.rows import timestamp, to_entity
from relay_gateway.storage.tables import catalog_revision, entities, entity_columns, master_keys

KIND = "master key"
PAGE = 500
Why = Literal["first", "proven", "adopted"]


class KeyRow(msgspec.Struct, frozen=True):
    """One master key; see the table of this name."""

    backend: str
    key_id: str
    canary: dict[str, Any]
    added_at: str
    retired_at: str | None = None
    rewrap_began_at: str | None = None
    rewrap_ended_at: str | None = None
    rewrapped: int = 0


class MasterKeyStore:
    """Every method raises :class:`StorageUnavailableError` when the database cannot be asked."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def keys(self) -> list[KeyRow]:
        """All keys, the oldest first."""
        async with reading(self._engine) as connection:
            return await _keys(connection)

    async def add(self, backend: str, key_id: str, canary: dict[str, Any], why: Why) -> bool:
        """Lets values be sealed with a key; ``False`` when it is there already, or when it was to
        be the first and is not."""
        row = KeyRow(backend, key_id, canary, timestamp())
        async with writing(self._engine) as connection:
            await _hold_revision(connection)
            there = [key.key_id for key in await _keys(connection) if key.backend == backend]
            if key_id in there or (there and why == "first"):
                return False
            await connection.execute(insert(master_keys).values(**msgspec.structs.asdict(row)))
            await record(connection, _event("add", key_id, {"backend": backend, "why": why}))
            return True

    async def begin_rewrap(self, backend: str, key_id: str) -> None:
        """Makes a key that is in the table the only one to seal with: the others of its backend
        are retired. What is sealed with them stays, and nothing joins it from here on. A rewrap
        that was begun and has not ended goes on."""
        async with writing(self._engine) as connection:
            await _hold_revision(connection)
            keys = [key for key in await _keys(connection) if key.backend == backend]
            if any(_is_being_rewrapped(key, key_id, keys) for key in keys):
                return
            now = timestamp()
            others = (master_keys.c.backend == backend) & (master_keys.c.key_id != key_id)
            await connection.execute(
                update(master_keys)
                .where(others & master_keys.c.retired_at.is_(None))
                .values(retired_at=now)
            )
            await connection.execute(
                update(master_keys)
                .where(_is(backend, key_id))
                .values(retired_at=None, rewrap_began_at=now, rewrap_ended_at=None, rewrapped=0)
            )
            await record(connection, _event("rewrap-begin", key_id, {"backend": backend}))

    async def count_rewrapped(self, backend: str, key_id: str, more: int) -> None:
        """Notes that ``more`` references were sealed anew."""
        async with writing(self._engine) as connection:
            await connection.execute(
                update(master_keys)
                .where(_is(backend, key_id))
                .values(rewrapped=master_keys.c.rewrapped + more)
            )

    async def end_rewrap(self, backend: str, key_id: str, *, failed: int) -> None:
        """Notes that nothing is left that could be sealed anew; ``failed`` cannot be opened."""
        async with writing(self._engine) as connection:
            result = await connection.execute(
                update(master_keys)
                .where(_is(backend, key_id))
                .values(rewrap_ended_at=timestamp())
                .returning(master_keys.c.rewrapped)
            )
            detail = {"backend": backend, "rewrapped": result.scalar_one(), "failed": failed}
            await record(connection, _event("rewrap-end", key_id, detail))

    async def sealed_rows(self, after: str = "") -> list[EntityRow]:
        """The next portion of entities with sealed references, in order of their ids; an empty one
        is the last."""
        # A coarse choice that both databases can make; the caller looks inside.
        chosen = cast(entities.c.sealed, Text).like('%"keyId"%') & (entities.c.id > after)
        statement = select(*entity_columns).where(chosen).order_by(entities.c.id).limit(PAGE)
        async with reading(self._engine) as connection:
            rows = await connection.execute(statement)
            return [to_entity(row) for row in rows.mappings()]


def sealed_references(sealed: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The members of a ``sealed`` document that a master key seals, with their names."""
    for name, value in sealed.items():
        if isinstance(value, dict) and isinstance(value.get("keyId"), str) and value.get("kind"):
            yield name, value


async def refuse_unproven_keys(
    connection: AsyncConnection, writes: Iterable[tuple[EntityRow | None, EntityRow]]
) -> dict[str, MasterKeyError]:
    """The refusals, by id of the entity, of writes (before, after) that bring in a value sealed
    with a key that does not belong to this database or does no longer. The transaction must be one
    that holds the catalog's revision."""
    sealed_with = {
        after.id: keys for before, after in writes if (keys := set(_new_keys(before, after)))
    }
    if not sealed_with:
        return {}
    known = await _keys(connection)
    refusals = {}
    for entity_id, keys in sealed_with.items():
        for backend, key_id in keys:
            problem = _problem([key for key in known if key.backend == backend], key_id)
            if problem is not None:
                refusals[entity_id] = MasterKeyError(problem)
    return refusals


def _new_keys(before: EntityRow | None, after: EntityRow) -> Iterator[tuple[str, str]]:
    former = before.sealed if before is not None else {}
    for name, reference in sealed_references(after.sealed):
        if former.get(name) != reference:
            yield str(reference["kind"]), reference["keyId"]


def _problem(known: Sequence[KeyRow], key_id: str) -> str | None:
    found = next((key for key in known if key.key_id == key_id), None)
    if not known or (found is not None and found.retired_at is None):
        return None
    in_force = ", ".join(key.key_id for key in known if key.retired_at is None)
    if found is not None:
        return (
            f"nothing may be sealed with master key {key_id} since a rotation to {in_force} "
            f"retired it at {found.retired_at}; make that key the first of RELAY_MASTER_KEY on "
            "this instance, too"
        )
    return (
        f"master key {key_id} of this instance does not belong to this database, whose values are "
        f"sealed with {in_force}; nothing was changed. Put that key into RELAY_MASTER_KEY, behind "
        "the new one where that is a new one; `relay-gateway master-key status` tells more"
    )


def _is_being_rewrapped(key: KeyRow, key_id: str, keys: Sequence[KeyRow]) -> bool:
    """Whether ``key`` is the one called ``key_id``, alone in force, its rewrap not at its end."""
    alone = [other.key_id for other in keys if other.retired_at is None] == [key_id]
    return alone and key.key_id == key_id and bool(key.rewrap_began_at and not key.rewrap_ended_at)


async def _hold_revision(connection: AsyncConnection) -> None:
    """Waits for catalog writes under way, which were admitted by what was before, and lets later
    ones wait."""
    await connection.execute(select(catalog_revision.c.revision).with_for_update())


def _is(backend: str, key_id: str) -> Any:
    return (master_keys.c.backend == backend) & (master_keys.c.key_id == key_id)


async def _keys(connection: AsyncConnection) -> list[KeyRow]:
    order = (master_keys.c.added_at, master_keys.c.key_id)
    rows = await connection.execute(select(master_keys).order_by(*order))
    return [KeyRow(**row) for row in rows.mappings()]


def _event(action: str, key_id: str, detail: Mapping[str, Any]) -> AuditEvent:
    return AuditEvent(action=action, kind=KIND, target=key_id, detail=detail)
