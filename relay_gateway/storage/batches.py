"""Writing to the catalog: one entity or many at one revision, in statements for many at once."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from itertools import chain
from typing import Any

from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.catalog.garbage import MANY, uncollected
from relay_gateway.errors import (
    BatchRefusedError,
    CatalogError,
    EntityNotFoundError,
    EntityReferencedError,
    InvalidEntityError,
    SlugTakenError,
    VersionConflictError,
)
from relay_gateway.ids import is_id, slugify
from relay_gateway.storage.audit import AuditEvent, record, write_event
from relay_gateway.storage.constraints import (
    ConstraintCheck,
    Content,
    find_referrers,
    forget_constraints,
    record_constraints,
)
from relay_gateway.storage.master_keys import refuse_unproven_keys
from relay_gateway.storage.rows import (
    Batch,
    EntityChange,
    EntityRemoval,
    EntityUpdate,
    NewEntity,
    portions,
    timestamp,
    to_entity,
)
from relay_gateway.storage.slugs import SlugMint, slug_owners
from relay_gateway.storage.tables import catalog_changes, entities, entity_columns

_update = update(entities).where(entities.c.id == bindparam("row_id"))


async def write_batch(
    connection: AsyncConnection, batch: Batch, revision: int
) -> Sequence[EntityRow]:
    """Writes ``batch`` in a transaction that began with ``revision``, and records it for those who
    follow the catalog and for those who look back.

    Returns the entities that were made, those that were changed, and those that were deleted as
    they last were. Raises :class:`BatchRefusedError`; the transaction must then be undone.
    """
    many = len(batch.create) + len(batch.update) + len(batch.delete) >= MANY
    with uncollected(stays=lambda: False) if many else nullcontext():
        return await _Write(connection, batch, revision).run()


class _Write:
    """One batch on its way into the database. Refusals are gathered, so that all are told."""

    def __init__(self, connection: AsyncConnection, batch: Batch, revision: int) -> None:
        self._connection = connection
        self._batch = batch
        self._revision = revision
        self._now = timestamp()
        self._refusals: dict[str, CatalogError] = {}
        self._before: dict[str, EntityRow] = {}

    async def run(self) -> Sequence[EntityRow]:
        """Does it."""
        await self._read()
        deleted = [self._before[r.id] for r in self._batch.delete if r.id in self._before]
        # What goes and what changes gives up its names and references before others take them.
        await forget_constraints(self._connection, list(self._before))
        await self._delete(deleted)
        slugs = await self._slugs()
        created = [_made(entity, slugs[entity.id], self._now) for entity in self._batch.create]
        updated = [
            _changed(self._before[item.id], item.change, slugs[item.id], self._now)
            for item in self._batch.update
            if item.id in self._before
        ]
        await self._check(created, updated)
        await self._store(created, updated)
        await self._record([
            *(("create", None, row) for row in created),
            *(("update", self._before[row.id], row) for row in updated),
            *(("delete", row, None) for row in deleted),
        ])  # fmt: skip
        return [*created, *updated, *deleted]

    def _refuse(self, entity_id: str, error: CatalogError) -> None:
        self._refusals.setdefault(entity_id, error)

    async def _read(self) -> None:
        """The entities to change and to delete as they are, if they are as expected."""
        named: list[EntityUpdate | EntityRemoval] = [*self._batch.update, *self._batch.delete]
        found: dict[str, EntityRow] = {}
        for some in portions(item.id for item in named if is_id(item.id)):
            statement = select(*entity_columns).where(entities.c.id.in_(some))
            rows = await self._connection.execute(statement)
            found.update((row["id"], to_entity(row)) for row in rows.mappings())
        for item in named:
            row = found.get(item.id)
            if row is None or row.kind != item.kind:
                self._refuse(item.id, EntityNotFoundError(item.kind, item.id))
            elif item.expected_version not in (None, row.version):
                self._refuse(item.id, _conflict(row, item))
            else:
                self._before[item.id] = row

    async def _delete(self, rows: Sequence[EntityRow]) -> None:
        """Deletes what nothing refers to any more; the rest is refused."""
        free = []
        for some in portions(rows):
            referrers = await find_referrers(self._connection, [row.id for row in some])
            for row in some:
                if row.id in referrers:
                    error = EntityReferencedError(row.kind, row.slug, referrers[row.id])
                    self._refuse(row.id, error)
                else:
                    free.append(row.id)
        for ids in portions(free):
            await self._connection.execute(delete(entities).where(entities.c.id.in_(ids)))

    async def _slugs(self) -> Mapping[str, str]:
        """The slug of each entity that is made or changed, by id; taken ones are refused."""
        wanted: defaultdict[str, dict[str, str]] = defaultdict(dict)
        minted: defaultdict[str, list[NewEntity]] = defaultdict(list)
        for item in self._batch.update:
            if item.id in self._before:
                wanted[item.kind][item.id] = item.change.slug or self._before[item.id].slug
        for entity in self._batch.create:
            if entity.slug is None:
                minted[entity.kind].append(entity)
            else:
                wanted[entity.kind][entity.id] = entity.slug
        slugs: dict[str, str] = {}
        for kind in wanted.keys() | minted.keys():
            slugs |= await self._slugs_of(kind, wanted[kind], minted[kind])
        return slugs

    async def _slugs_of(
        self, kind: str, wanted: Mapping[str, str], minted: Sequence[NewEntity]
    ) -> Mapping[str, str]:
        bases = {slugify(entity.display_name) for entity in minted}
        owners = await slug_owners(self._connection, kind, {*wanted.values(), *bases})
        for entity_id, slug in wanted.items():
            if owners.setdefault(slug, entity_id) != entity_id:
                self._refuse(entity_id, SlugTakenError(kind, slug))
        mint = SlugMint(self._connection, kind, owners)
        slugs = dict(wanted)
        for some in portions(minted):
            slugs |= {entity.id: await mint.mint(entity.display_name) for entity in some}
            await asyncio.sleep(0)
        return slugs

    async def _check(self, created: Sequence[EntityRow], updated: Sequence[EntityRow]) -> None:
        """Raises :class:`BatchRefusedError` for all that is wrong so far and with the content."""
        check = ConstraintCheck(self._connection, {row.id: row.kind for row in created})
        for some in portions(chain(created, updated)):
            found = await check.problems([_content(row) for row in some])
            for entity_id, problems in found.items():
                self._refuse(entity_id, InvalidEntityError(problems))
            await asyncio.sleep(0)
        writes = [*((None, row) for row in created), *((self._before[r.id], r) for r in updated)]
        for entity_id, error in (await refuse_unproven_keys(self._connection, writes)).items():
            self._refuse(entity_id, error)
        if self._refusals:
            raise BatchRefusedError(self._refusals)

    async def _store(self, created: Sequence[EntityRow], updated: Sequence[EntityRow]) -> None:
        for some in portions(updated):
            values = [{**_columns(row), "row_id": row.id} for row in some]
            await self._connection.execute(_update, values)
        for some in portions(created):
            await self._connection.execute(insert(entities), [_columns(row) for row in some])
        for some in portions(chain(created, updated)):
            await record_constraints(self._connection, [_content(row) for row in some])
            await asyncio.sleep(0)

    async def _record(
        self, writes: Sequence[tuple[str, EntityRow | None, EntityRow | None]]
    ) -> None:
        for some in portions(writes):
            remarks = self._batch.remarks
            events = [_event(self._revision, *write, remarks) for write in some]
            await self._connection.execute(
                insert(catalog_changes),
                [
                    {
                        "revision": self._revision,
                        "entity_id": event.target,
                        "kind": event.kind,
                        "action": event.action,
                        "changed_at": self._now,
                    }
                    for event in events
                ],
            )
            await record(self._connection, *events)


def _event(
    revision: int,
    action: str,
    before: EntityRow | None,
    after: EntityRow | None,
    remarks: Mapping[str, Any],
) -> AuditEvent:
    row = after or before
    assert row is not None  # noqa: S101  # a write has at least one of them
    return write_event(action, row.kind, before, after, revision, remarks)


def _conflict(row: EntityRow, item: EntityUpdate | EntityRemoval) -> CatalogError:
    return VersionConflictError(
        row.kind, row.slug, expected=item.expected_version or 0, current=row.version
    )


def _made(entity: NewEntity, slug: str, now: str) -> EntityRow:
    return EntityRow(
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


def _changed(current: EntityRow, change: EntityChange, slug: str, now: str) -> EntityRow:
    return EntityRow(
        id=current.id,
        kind=current.kind,
        slug=slug,
        display_name=change.display_name,
        description=change.description,
        labels=change.labels,
        managed_by=change.managed_by or current.managed_by,
        spec=change.spec,
        sealed=change.sealed,
        version=current.version + 1,
        created_at=current.created_at,
        updated_at=now,
    )


def _content(row: EntityRow) -> Content:
    return Content(row.kind, row.id, row.slug, row.spec)


def _columns(row: EntityRow) -> dict[str, Any]:
    columns = {name: getattr(row, name) for name in EntityRow.__struct_fields__}
    return {**columns, "search_text": "\n".join(_words(row)).casefold()}


def _words(row: EntityRow) -> Iterator[str]:
    """What a search for an entity looks through."""
    yield from (row.display_name, row.slug, row.description)
    if isinstance(name := row.spec.get("name"), str):
        yield name
    yield from (alias for alias in row.spec.get("aliases") or () if isinstance(alias, str))
