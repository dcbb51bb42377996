"""What instances that follow the catalog read: all of it, or what changed since a revision.

Rows come in portions, and documents in them stay text until another thread reads them, so that a
large catalog never holds up the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec
from sqlalchemy import Select, Text, cast, select
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.storage.engine import reading
from relay_gateway.storage.glance import Glance
from relay_gateway.storage.revision import current_revision
from relay_gateway.storage.settings import stored_settings
from relay_gateway.storage.tables import catalog_changes, entities

PORTION = 250
FEW = 50
"""So many rows are read faster than another thread is woken."""
UNREADABLE: dict[str, Any] = {"unreadable": None}
"""Stands for a document that is no JSON: no spec accepts it, so the row is reported as bad."""

_DOCUMENTS = ("labels", "spec", "sealed")
_columns = [
    cast(column, Text).label(column.name) if column.name in _DOCUMENTS else column
    for column in (entities.c[name] for name in EntityRow.__struct_fields__)
]


Take = Callable[[Sequence[EntityRow]], None]
"""What is given a portion of rows, mostly in another thread, never two at once."""


class CatalogDelta(msgspec.Struct, frozen=True):
    """What the database says after rows were read: its revision, ids of rows that are gone, and
    the settings that are set, by section."""

    revision: int
    settings: Mapping[str, Mapping[str, Any]]
    deleted: frozenset[str] = frozenset()


class CatalogChanges:
    """Reads for followers. Every method raises :class:`StorageUnavailableError` when the database
    cannot be asked."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._glance = Glance(engine)
        self._seen: int | None = None
        """What a glance said before the last revision was read."""
        self._revision = 0

    async def revision(self) -> int:
        """The number of writes so far."""
        seen = self._glance.version()
        if seen is None or seen != self._seen:
            self._seen = None
            async with reading(self._engine) as connection:
                self._revision = await current_revision(connection)
            self._seen = seen
        return self._revision

    async def load(self, take: Take) -> CatalogDelta:
        """Gives ``take`` all entities in order of creation."""
        async with reading(self._engine) as connection:
            revision = await current_revision(connection)
            settings = await stored_settings(connection)
            query = select(entities.c.id, *_columns).order_by(entities.c.id)
            await _entities(connection, query, take)
        return CatalogDelta(revision, settings)

    async def since(self, revision: int, take: Take) -> CatalogDelta | None:
        """Gives ``take`` what changed after ``revision`` as it is now; ``None`` when the database
        has not come that far, which means that it is another one."""
        async with reading(self._engine) as connection:
            current = await current_revision(connection)
            if current < revision:
                return None
            settings = await stored_settings(connection)
            changed = catalog_changes.c
            later = select(changed.entity_id).where(changed.revision > revision).distinct()
            touched = later.subquery()
            query = select(touched.c.entity_id, *_columns).outerjoin_from(
                touched, entities, entities.c.id == touched.c.entity_id
            )
            deleted = await _entities(connection, query, take)
        return CatalogDelta(current, settings, deleted)


async def _entities(connection: AsyncConnection, query: Select[Any], take: Take) -> frozenset[str]:
    """Gives ``take`` the rows that ``query`` finds behind their ids; returns the ids without
    row."""
    deleted: set[str] = set()
    stream = connection.stream(query, execution_options={"yield_per": PORTION})
    async with stream as result:
        async for portion in result.partitions():
            # What is made of a portion also ends in the thread that made it.
            work = partial(_take, portion, take)
            deleted |= work() if len(portion) <= FEW else await asyncio.to_thread(work)
    return frozenset(deleted)


def _take(portion: Sequence[Any], take: Take) -> set[str]:
    take(_read([row[1:] for row in portion if row[1] is not None]))
    return {row[0] for row in portion if row[1] is None}


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
