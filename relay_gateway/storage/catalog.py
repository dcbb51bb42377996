"""The catalog store: every read and write of entities, each write one transaction."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.errors import (
    BatchRefusedError,
    EntityNotFoundError,
    FieldProblem,
    Referrer,
)
from relay_gateway.ids import is_id, is_slug
from relay_gateway.storage.audit import NO_REMARKS
from relay_gateway.storage.batches import write_batch
from relay_gateway.storage.constraints import ConstraintCheck, Content, find_referrers
from relay_gateway.storage.engine import reading, writing
from relay_gateway.storage.idempotency import CreateKey, recall, remember
from relay_gateway.storage.listing import Listing, read_page
from relay_gateway.storage.revision import announce, current_revision, next_revision
from relay_gateway.storage.rows import (
    Batch,
    CatalogRows,
    EntityChange,
    EntityRemoval,
    EntityUpdate,
    NewEntity,
    Page,
    to_entity,
)
from relay_gateway.storage.settings import stored_settings
from relay_gateway.storage.slugs import mint_slug, slug_owners
from relay_gateway.storage.tables import entities, entity_columns


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
            return (await find_referrers(connection, [row.id])).get(row.id, [])

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
            content = Content(kind, entity_id, wanted, spec)
            found = await ConstraintCheck(connection).problems([content])
            problems = found.get(entity_id, [])
            owner = (await slug_owners(connection, kind, [wanted])).get(wanted)
            if owner is not None and owner != entity_id:
                message = f"another {kind} already has the slug {wanted!r}"
                problems.append(FieldProblem("metadata.slug", "slug_taken", message))
            return problems

    async def create(self, entity: NewEntity, *, dry_run: bool = False) -> EntityRow:
        """Writes a new entity.

        Raises :class:`SlugTakenError` when ``slug`` is given and in use,
        :class:`InvalidEntityError` for references to what does not exist and for names in use.
        """
        return await self._write_one(Batch(create=[entity]), dry_run=dry_run)

    async def create_once(self, entity: NewEntity, key: CreateKey) -> tuple[EntityRow, bool]:
        """Writes a new entity unless a create with ``key`` did so within the last day; with whether
        it was written now. Raises as :meth:`create` and :meth:`recall`."""
        async with writing(self._engine) as connection:
            revision = await next_revision(connection)
            former = await recall(connection, key)
            if former is not None:
                await connection.rollback()
                return former, False
            with _one_refusal():
                (row,) = await write_batch(connection, Batch(create=[entity]), revision)
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
    ) -> Sequence[EntityRow]:
        """Makes several entities; see :meth:`write`."""
        return await self.write(Batch(create=new), only_when_empty=only_when_empty)

    async def write(
        self, batch: Batch, *, only_when_empty: bool = False, dry_run: bool = False
    ) -> Sequence[EntityRow]:
        """Makes, changes and deletes several entities at one revision, all or none.

        Returns those that were made, those that were changed and those that were deleted as they
        last were. With ``only_when_empty`` nothing is written to a catalog that has any entity, and
        the answer is empty; an empty batch is no write, either. It takes time with the number of
        entities, but few statements, and leaves the event loop to others in between. Raises
        :class:`BatchRefusedError` with everything that a write of one would raise, by entity.
        """
        async with writing(self._engine) as connection:
            revision = await next_revision(connection)
            nothing = not (batch.create or batch.update or batch.delete)
            if nothing or (only_when_empty and not await _is_empty(connection)):
                await connection.rollback()
                return []
            rows = await write_batch(connection, batch, revision)
            await _finish(connection, revision, dry_run=dry_run)
            return rows

    async def update(
        self,
        kind: str,
        entity_id: str,
        change: EntityChange,
        *,
        expected_version: int | None = None,
        dry_run: bool = False,
        remarks: Mapping[str, Any] = NO_REMARKS,
    ) -> EntityRow:
        """Replaces the content of an entity and adds one to its version.

        Raises :class:`EntityNotFoundError`, :class:`VersionConflictError` when ``expected_version``
        is given and not the current one, and as :meth:`create`.
        """
        item = EntityUpdate(kind, _canonical(entity_id), change, expected_version)
        return await self._write_one(Batch(update=[item], remarks=remarks), dry_run=dry_run)

    async def delete(
        self,
        kind: str,
        entity_id: str,
        *,
        expected_version: int | None = None,
        dry_run: bool = False,
        remarks: Mapping[str, Any] = NO_REMARKS,
    ) -> EntityRow:
        """Deletes an entity and returns it as it last was.

        Raises :class:`EntityNotFoundError`, :class:`VersionConflictError` and
        :class:`EntityReferencedError` with everything that still points at it.
        """
        item = EntityRemoval(kind, _canonical(entity_id), expected_version)
        return await self._write_one(Batch(delete=[item], remarks=remarks), dry_run=dry_run)

    async def _write_one(self, batch: Batch, *, dry_run: bool) -> EntityRow:
        with _one_refusal():
            (row,) = await self.write(batch, dry_run=dry_run)
        return row


@contextmanager
def _one_refusal() -> Iterator[None]:
    """Raises what is wrong with the only entity of a batch."""
    try:
        yield
    except BatchRefusedError as error:
        (refusal,) = error.refusals.values()
        raise refusal from None


def _canonical(entity_id: str) -> str:
    """An id as it is stored."""
    return str(UUID(entity_id)) if is_id(entity_id) else entity_id


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


async def _select_one(connection: AsyncConnection, kind: str, condition: Any) -> EntityRow | None:
    result = await connection.execute(
        select(*entity_columns).where(entities.c.kind == kind, condition)
    )
    row = result.mappings().one_or_none()
    return to_entity(row) if row is not None else None


async def _finish(connection: AsyncConnection, revision: int, *, dry_run: bool) -> None:
    if dry_run:
        await connection.rollback()
    else:
        await announce(connection, revision)
