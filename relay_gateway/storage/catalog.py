"""The catalog store: every read and write of entities, each write one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.errors import (
    EntityNotFoundError,
    EntityReferencedError,
    FieldProblem,
    Referrer,
    VersionConflictError,
)
from relay_gateway.ids import is_id, is_slug
from relay_gateway.storage.audit import record_write
from relay_gateway.storage.constraints import apply_constraints, find_problems, find_referrers
from relay_gateway.storage.engine import reading, writing
from relay_gateway.storage.idempotency import CreateKey, recall, remember
from relay_gateway.storage.listing import Listing, read_page
from relay_gateway.storage.revision import announce, current_revision, next_revision
from relay_gateway.storage.rows import (
    CatalogRows,
    EntityChange,
    NewEntity,
    Page,
    timestamp,
    to_entity,
)
from relay_gateway.storage.settings import stored_settings
from relay_gateway.storage.slugs import claim_slug, mint_slug, slug_owner
from relay_gateway.storage.tables import (
    catalog_changes,
    entities,
    entity_columns,
    entity_references,
)


class CatalogStore:
    """Entities in the database.

    Every method raises :class:`StorageUnavailableError` when the database cannot be asked. Writes
    are checked, recorded as a change and counted as a revision in the transaction that makes
    them; the revision row is updated first and so lets one writer in at a time. With ``dry_run`` a
    write is checked and answered in the same way, and then undone.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def load(self) -> CatalogRows:
        """All entities of all kinds in order of creation and the settings, with the revision they
        belong to."""
        async with reading(self._engine) as connection:
            revision = await current_revision(connection)
            rows = await connection.execute(select(*entity_columns).order_by(entities.c.id))
            found = [to_entity(row) for row in rows.mappings()]
            return CatalogRows(revision, found, await stored_settings(connection))

    async def revision(self) -> int:
        """The number of writes so far; grows by one with each."""
        async with reading(self._engine) as connection:
            return await current_revision(connection)

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

    async def page(
        self,
        kind: str,
        *,
        limit: int,
        cursor: str | None = None,
        listing: Listing | None = None,
    ) -> Page:
        """At most ``limit`` entities of a list, after the page that gave ``cursor``; without a
        ``listing`` that is all of them in order of creation.

        Raises :class:`InvalidCursorError`.
        """
        async with reading(self._engine) as connection:
            return await read_page(connection, kind, listing or Listing(), limit, cursor)

    async def referrers(self, kind: str, ref: str) -> list[Referrer]:
        """Who points at the entity with the id or slug ``ref``.

        Raises :class:`EntityNotFoundError`.
        """
        async with reading(self._engine) as connection:
            row = await _find(connection, kind, ref)
            return await find_referrers(connection, row.id)

    async def problems(
        self,
        kind: str,
        spec: Mapping[str, Any],
        *,
        entity_id: str = "",
        slug: str | None = None,
        display_name: str = "",
    ) -> list[FieldProblem]:
        """What a write would find wrong with references and names, for a ``spec`` that may be wrong
        in other ways. Without a ``slug`` it is the one that ``display_name`` suggests."""
        async with reading(self._engine) as connection:
            wanted = slug or await mint_slug(connection, kind, display_name)
            problems = await find_problems(connection, kind, entity_id, wanted, spec)
            owner = await slug_owner(connection, kind, wanted)
            if owner is not None and owner != entity_id:
                message = f"another {kind} already has the slug {wanted!r}"
                problems.append(FieldProblem("metadata.slug", "slug_taken", message))
            return problems

    async def create(self, entity: NewEntity, *, dry_run: bool = False) -> EntityRow:
        """Writes a new entity.

        Raises :class:`SlugTakenError` when ``slug`` is given and in use,
        :class:`InvalidEntityError` for references to what does not exist and for names in use.
        """
        async with writing(self._engine) as connection:
            revision = await next_revision(connection)
            row = await _insert(connection, entity, revision)
            await _finish(connection, revision, dry_run=dry_run)
            return row

    async def create_once(self, entity: NewEntity, key: CreateKey) -> tuple[EntityRow, bool]:
        """Writes a new entity unless a create with ``key`` did so within the last day; with whether
        it was written now. Raises as :meth:`create` and :meth:`recall`."""
        async with writing(self._engine) as connection:
            revision = await next_revision(connection)
            former = await recall(connection, key)
            if former is not None:
                await connection.rollback()
                return former, False
            row = await _insert(connection, entity, revision)
            await remember(connection, key, row)
            await announce(connection, revision)
            return row, True

    async def recall(self, key: CreateKey) -> EntityRow | None:
        """What the create with ``key`` made, without its sealed part; ``None`` when there was none
        within the last day.

        Raises :class:`KeyReusedError` when the key came with another request.
        """
        async with reading(self._engine) as connection:
            return await recall(connection, key)

    async def write_all(
        self, new: Sequence[NewEntity], *, only_when_empty: bool = False
    ) -> list[EntityRow]:
        """Writes several new entities at one revision, all or none; each may refer to earlier ones.

        With ``only_when_empty`` nothing is written to a catalog that has any entity, and the answer
        is empty. Raises as :meth:`create`.
        """
        async with writing(self._engine) as connection:
            revision = await next_revision(connection)
            if not new or (only_when_empty and not await _is_empty(connection)):
                await connection.rollback()
                return []
            rows = [await _insert(connection, entity, revision) for entity in new]
            await announce(connection, revision)
            return rows

    async def update(
        self,
        kind: str,
        entity_id: str,
        change: EntityChange,
        *,
        expected_version: int | None = None,
        dry_run: bool = False,
    ) -> EntityRow:
        """Replaces the content of an entity and adds one to its version.

        Raises :class:`EntityNotFoundError`, :class:`VersionConflictError` when ``expected_version``
        is given and not the current one, and as :meth:`create`.
        """
        async with writing(self._engine) as connection:
            revision = await next_revision(connection)
            current = await _find_by_id(connection, kind, entity_id)
            _check_version(current, expected_version)
            row = _changed(current, change)
            await claim_slug(connection, kind, row.slug, row.id)
            await connection.execute(
                update(entities).where(entities.c.id == row.id).values(_columns(row))
            )
            await apply_constraints(connection, kind, row.id, row.slug, row.spec)
            await _record(connection, "update", revision, before=current, after=row)
            await _finish(connection, revision, dry_run=dry_run)
            return row

    async def delete(
        self,
        kind: str,
        entity_id: str,
        *,
        expected_version: int | None = None,
        dry_run: bool = False,
    ) -> EntityRow:
        """Deletes an entity and returns it as it last was.

        Raises :class:`EntityNotFoundError`, :class:`VersionConflictError` and
        :class:`EntityReferencedError` with everything that still points at it.
        """
        async with writing(self._engine) as connection:
            revision = await next_revision(connection)
            current = await _find_by_id(connection, kind, entity_id)
            _check_version(current, expected_version)
            referrers = await find_referrers(connection, current.id)
            if referrers:
                raise EntityReferencedError(kind, current.slug, referrers)
            await connection.execute(
                delete(entity_references).where(entity_references.c.source_id == current.id)
            )
            await connection.execute(delete(entities).where(entities.c.id == current.id))
            await _record(connection, "delete", revision, before=current)
            await _finish(connection, revision, dry_run=dry_run)
            return current


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
    result = await connection.execute(
        select(*entity_columns).where(entities.c.kind == kind, condition)
    )
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
    await _record(connection, "create", revision, after=row)
    return row


def _columns(row: EntityRow) -> dict[str, Any]:
    columns = {name: getattr(row, name) for name in EntityRow.__struct_fields__}
    return {**columns, "search_text": "\n".join(_words(row)).casefold()}


def _words(row: EntityRow) -> Iterator[str]:
    """What a search for an entity looks through."""
    yield from (row.display_name, row.slug, row.description)
    if isinstance(name := row.spec.get("name"), str):
        yield name
    yield from (alias for alias in row.spec.get("aliases") or () if isinstance(alias, str))


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


async def _record(
    connection: AsyncConnection,
    action: str,
    revision: int,
    *,
    before: EntityRow | None = None,
    after: EntityRow | None = None,
) -> None:
    """Records a write for those who follow the catalog and for those who look back."""
    row = after or before
    assert row is not None  # noqa: S101  # a write has at least one of them
    await connection.execute(
        insert(catalog_changes).values(
            revision=revision,
            entity_id=row.id,
            kind=row.kind,
            action=action,
            changed_at=timestamp(),
        )
    )
    await record_write(
        connection, action=action, kind=row.kind, before=before, after=after, revision=revision
    )


async def _finish(connection: AsyncConnection, revision: int, *, dry_run: bool) -> None:
    if dry_run:
        await connection.rollback()
    else:
        await announce(connection, revision)
