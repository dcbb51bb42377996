"""The catalog store: every read and write of entities, each write one transaction."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.errors import (
    EntityNotFoundError,
    EntityReferencedError,
    Referrer,
    VersionConflictError,
)
from relay_gateway.ids import is_id, is_slug
from relay_gateway.storage.constraints import apply_constraints, find_referrers
from relay_gateway.storage.engine import reading, writing
from relay_gateway.storage.rows import (
    CatalogRows,
    EntityChange,
    NewEntity,
    Page,
    timestamp,
    to_entity,
)
from relay_gateway.storage.slugs import claim_slug, mint_slug
from relay_gateway.storage.tables import (
    catalog_changes,
    catalog_revision,
    entities,
    entity_references,
)


class InvalidCursorError(ValueError):
    """A cursor that no page of this list ended with."""


class CatalogStore:
    """Entities in the database.

    Every method raises :class:`StorageUnavailableError` when the database cannot be asked. Writes
    are checked, recorded as a change and counted as a revision in the transaction that makes
    them; the revision row is updated first and so lets one writer in at a time.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def load(self) -> CatalogRows:
        """All entities of all kinds in order of creation, with the revision they belong to."""
        async with reading(self._engine) as connection:
            revision = await _revision(connection)
            rows = await connection.execute(select(entities).order_by(entities.c.id))
            return CatalogRows(revision, [to_entity(row) for row in rows.mappings()])

    async def revision(self) -> int:
        """The number of writes so far; grows by one with each."""
        async with reading(self._engine) as connection:
            return await _revision(connection)

    async def is_empty(self) -> bool:
        """Whether there is no entity of any kind."""
        async with reading(self._engine) as connection:
            return await _is_empty(connection)

    async def get(self, kind: str, ref: str) -> EntityRow:
        """The entity with the id or slug ``ref``; what has the form of an id is looked up as one
        first.

        Raises :class:`EntityNotFoundError`.
        """
        async with reading(self._engine) as connection:
            return await _find(connection, kind, ref)

    async def page(self, kind: str, *, limit: int, cursor: str | None = None) -> Page:
        """At most ``limit`` entities in order of creation, after the page that gave ``cursor``.

        Raises :class:`InvalidCursorError`.
        """
        after = _decode_cursor(cursor) if cursor is not None else ""
        async with reading(self._engine) as connection:
            total = await connection.scalar(
                select(func.count()).select_from(entities).where(entities.c.kind == kind)
            )
            rows = await connection.execute(
                select(entities)
                .where(entities.c.kind == kind, entities.c.id > after)
                .order_by(entities.c.id)
                .limit(limit + 1)
            )
            found = [to_entity(row) for row in rows.mappings()]
        items = found[:limit]
        following = _encode_cursor(items[-1].id) if len(found) > limit else None
        return Page(items, total or 0, following)

    async def referrers(self, kind: str, ref: str) -> list[Referrer]:
        """Who points at the entity with the id or slug ``ref``.

        Raises :class:`EntityNotFoundError`.
        """
        async with reading(self._engine) as connection:
            row = await _find(connection, kind, ref)
            return await find_referrers(connection, row.id)

    async def create(self, entity: NewEntity) -> EntityRow:
        """Writes a new entity.

        Raises :class:`SlugTakenError` when ``slug`` is given and in use,
        :class:`InvalidEntityError` for references to what does not exist and for names in use.
        """
        async with writing(self._engine) as connection:
            revision = await _next_revision(connection)
            return await _insert(connection, entity, revision)

    async def write_all(
        self, new: Sequence[NewEntity], *, only_when_empty: bool = False
    ) -> list[EntityRow]:
        """Writes several new entities at one revision, all or none; each may refer to earlier ones.

        With ``only_when_empty`` nothing is written to a catalog that has any entity, and the answer
        is empty. Raises as :meth:`create`.
        """
        async with writing(self._engine) as connection:
            revision = await _next_revision(connection)
            if not new or (only_when_empty and not await _is_empty(connection)):
                await connection.rollback()
                return []
            return [await _insert(connection, entity, revision) for entity in new]

    async def update(
        self,
        kind: str,
        entity_id: str,
        change: EntityChange,
        *,
        expected_version: int | None = None,
    ) -> EntityRow:
        """Replaces the content of an entity and adds one to its version.

        Raises :class:`EntityNotFoundError`, :class:`VersionConflictError` when ``expected_version``
        is given and not the current one, and as :meth:`create`.
        """
        async with writing(self._engine) as connection:
            revision = await _next_revision(connection)
            current = await _find_by_id(connection, kind, entity_id)
            _check_version(current, expected_version)
            row = _changed(current, change)
            await claim_slug(connection, kind, row.slug, row.id)
            await connection.execute(
                update(entities).where(entities.c.id == row.id).values(_columns(row))
            )
            await apply_constraints(connection, kind, row.id, row.slug, row.spec)
            await _record_change(connection, revision, row, "update")
            return row

    async def delete(
        self, kind: str, entity_id: str, *, expected_version: int | None = None
    ) -> EntityRow:
        """Deletes an entity and returns it as it last was.

        Raises :class:`EntityNotFoundError`, :class:`VersionConflictError` and
        :class:`EntityReferencedError` with everything that still points at it.
        """
        async with writing(self._engine) as connection:
            revision = await _next_revision(connection)
            current = await _find_by_id(connection, kind, entity_id)
            _check_version(current, expected_version)
            referrers = await find_referrers(connection, current.id)
            if referrers:
                raise EntityReferencedError(kind, current.slug, referrers)
            await connection.execute(
                delete(entity_references).where(entity_references.c.source_id == current.id)
            )
            await connection.execute(delete(entities).where(entities.c.id == current.id))
            await _record_change(connection, revision, current, "delete")
            return current


async def _revision(connection: AsyncConnection) -> int:
    revision: int = (await connection.execute(select(catalog_revision.c.revision))).scalar_one()
    return revision


async def _next_revision(connection: AsyncConnection) -> int:
    result = await connection.execute(
        update(catalog_revision)
        .values(revision=catalog_revision.c.revision + 1)
        .returning(catalog_revision.c.revision)
    )
    revision: int = result.scalar_one()
    return revision


async def _is_empty(connection: AsyncConnection) -> bool:
    return await connection.scalar(select(entities.c.id).limit(1)) is None


async def _find(connection: AsyncConnection, kind: str, ref: str) -> EntityRow:
    if is_id(ref):
        row = await _select_one(connection, kind, entities.c.id == str(UUID(ref)))
        if row is not None:
            return row
    if is_slug(ref):
        row = await _select_one(connection, kind, entities.c.slug == ref)
        if row is not None:
            return row
    raise EntityNotFoundError(kind, ref)


async def _find_by_id(connection: AsyncConnection, kind: str, entity_id: str) -> EntityRow:
    row = None
    if is_id(entity_id):
        row = await _select_one(connection, kind, entities.c.id == str(UUID(entity_id)))
    if row is None:
        raise EntityNotFoundError(kind, entity_id)
    return row


async def _select_one(connection: AsyncConnection, kind: str, condition: Any) -> EntityRow | None:
    result = await connection.execute(select(entities).where(entities.c.kind == kind, condition))
    row = result.mappings().one_or_none()
    return to_entity(row) if row is not None else None


async def _insert(connection: AsyncConnection, entity: NewEntity, revision: int) -> EntityRow:
    slug = entity.slug
    if slug is None:
        slug = await mint_slug(connection, entity.kind, entity.display_name)
    else:
        await claim_slug(connection, entity.kind, slug, entity.id)
    now = timestamp()
    row = EntityRow(
        id=entity.id,
        kind=entity.kind,
        slug=slug,
        display_name=entity.display_name,
        description=entity.description,
        labels=entity.labels,
        managed_by=entity.managed_by,
        spec=entity.spec,
        sealed=entity.sealed,
        version=1,
        created_at=now,
        updated_at=now,
    )
    await connection.execute(insert(entities).values(_columns(row)))
    await apply_constraints(connection, row.kind, row.id, row.slug, row.spec)
    await _record_change(connection, revision, row, "create")
    return row


def _columns(row: EntityRow) -> dict[str, Any]:
    return {name: getattr(row, name) for name in EntityRow.__struct_fields__}


def _changed(current: EntityRow, change: EntityChange) -> EntityRow:
    return EntityRow(
        id=current.id,
        kind=current.kind,
        slug=change.slug or current.slug,
        display_name=change.display_name,
        description=change.description,
        labels=change.labels,
        managed_by=current.managed_by,
        spec=change.spec,
        sealed=change.sealed,
        version=current.version + 1,
        created_at=current.created_at,
        updated_at=timestamp(),
    )


def _check_version(current: EntityRow, expected: int | None) -> None:
    if expected is not None and expected != current.version:
        raise VersionConflictError(
            current.kind, current.slug, expected=expected, current=current.version
        )


async def _record_change(
    connection: AsyncConnection, revision: int, row: EntityRow, action: str
) -> None:
    await connection.execute(
        insert(catalog_changes).values(
            revision=revision,
            entity_id=row.id,
            kind=row.kind,
            action=action,
            changed_at=timestamp(),
        )
    )


def _encode_cursor(entity_id: str) -> str:
    return base64.urlsafe_b64encode(UUID(entity_id).bytes).decode().rstrip("=")


def _decode_cursor(cursor: str) -> str:
    try:
        return str(UUID(bytes=base64.urlsafe_b64decode(cursor + "==")))
    except (binascii.Error, ValueError):
        raise InvalidCursorError(
            "the cursor is not one that a page of this list ended with; start without a cursor"
        ) from None
