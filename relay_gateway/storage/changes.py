"""What instances that follow the catalog read: all of it, or what changed since a revision.

Rows come in portions, and documents in them stay text until another thread reads them, so that a
large catalog never holds up the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Select, Text, cast, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.storage.engine import reading
from relay_gateway.storage.revision import current_revision
from relay_gateway.storage.rows import CatalogRows
from relay_gateway.storage.settings import stored_settings
from relay_gateway.storage.tables import catalog_changes, entities

PORTION = 500
FEW = 50
"""So many rows are read faster than another thread is woken."""
UNREADABLE: dict[str, Any] = {"unreadable": None}
"""Stands for a document that is no JSON: no spec accepts it, so the row is reported as bad."""

_DOCUMENTS = ("labels", "spec", "sealed")
_columns = [
    cast(column, Text).label(column.name) if column.name in _DOCUMENTS else column
    for column in (entities.c[name] for name in EntityRow.__struct_fields__)
]


@dataclass(frozen=True, slots=True)
class CatalogDelta:
    """What changed after a revision: rows as they are now, ids of those that are gone, and the
    settings that are set, by section."""

    revision: int
    changed: Sequence[EntityRow]
    deleted: frozenset[str]
    settings: Mapping[str, Mapping[str, Any]]


class CatalogChanges:
    """Reads for followers. Every method raises :class:`StorageUnavailableError` when the database
    cannot be asked."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def revision(self) -> int:
        """The number of writes so far."""
        async with reading(self._engine) as connection:
            return await current_revision(connection)

    async def load(self) -> CatalogRows:
        """All entities in order of creation and the settings, with the revision they belong to."""
        async with reading(self._engine) as connection:
            revision = await current_revision(connection)
            settings = await stored_settings(connection)
            rows = await _entities(connection, select(*_columns).order_by(entities.c.id))
        return CatalogRows(revision, rows, settings)

    async def since(self, revision: int) -> CatalogDelta | None:
        """What changed after ``revision``; ``None`` when the database has not come that far, which
        means that it is another one."""
        async with reading(self._engine) as connection:
            current = await current_revision(connection)
            if current < revision:
                return None
            later = catalog_changes.c.revision > revision
            ids = await connection.scalars(select(catalog_changes.c.entity_id).where(later))
            touched = set(ids)
            rows: list[EntityRow] = []
            if touched:
                which = select(catalog_changes.c.entity_id).where(later)
                rows = await _entities(
                    connection, select(*_columns).where(entities.c.id.in_(which))
                )
            settings = await stored_settings(connection)
        return CatalogDelta(current, rows, frozenset(touched - {row.id for row in rows}), settings)


async def _entities(connection: AsyncConnection, query: Select[Any]) -> list[EntityRow]:
    found: list[EntityRow] = []
    async with connection.stream(query) as result:
        async for portion in result.partitions(PORTION):
            if len(portion) <= FEW:
                found += _read(portion)
            else:
                found += await asyncio.to_thread(_read, portion)
    return found


def _read(portion: Sequence[Any]) -> list[EntityRow]:
    names = EntityRow.__struct_fields__
    return [EntityRow(**_decoded(dict(zip(names, row, strict=True)))) for row in portion]


def _decoded(row: dict[str, Any]) -> dict[str, Any]:
    for name in _DOCUMENTS:
        row[name] = _document(row[name])
    return row


def _document(text: object) -> dict[str, Any]:
    try:
        return msgspec.json.decode(str(text), type=dict[str, Any])
    except msgspec.DecodeError:
        return UNREADABLE
