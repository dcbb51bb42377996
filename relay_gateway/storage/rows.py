"""What goes into the catalog store and what comes out of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any, TypeVar

import msgspec
from sqlalchemy import RowMapping

from relay_gateway.catalog.envelope import EntityRow, ManagedBy
from relay_gateway.ids import new_id

PORTION = 200
"""So many rows are written or values asked for at once: the event loop can do other work after
each, and no database takes more than 32 766 values in a statement."""

T = TypeVar("T")


class NewEntity(msgspec.Struct, frozen=True, kw_only=True):
    """An entity to create. ``id`` is minted by whoever builds it, because secrets are sealed to it;
    without a ``slug`` one is made of ``display_name``."""

    kind: str
    display_name: str
    spec: dict[str, Any]
    id: str = msgspec.field(default_factory=new_id)
    slug: str | None = None
    description: str = ""
    labels: dict[str, str] = {}
    managed_by: ManagedBy = "api"
    sealed: dict[str, Any] = {}


class EntityChange(msgspec.Struct, frozen=True, kw_only=True):
    """The new content of an entity; ``slug`` and ``managed_by`` ``None`` keep what it has."""

    display_name: str
    spec: dict[str, Any]
    slug: str | None = None
    description: str = ""
    labels: dict[str, str] = {}
    sealed: dict[str, Any] = {}
    managed_by: ManagedBy | None = None


class EntityUpdate(msgspec.Struct, frozen=True):
    """An entity to change; with ``expected_version`` only when that is its version."""

    kind: str
    id: str
    change: EntityChange
    expected_version: int | None = None


class EntityRemoval(msgspec.Struct, frozen=True):
    """An entity to delete; with ``expected_version`` only when that is its version."""

    kind: str
    id: str
    expected_version: int | None = None


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """What one write does, all or none; no entity may be in it twice.

    What it makes may refer to what it makes, in any order and in circles. The slugs and names of
    entities that it deletes are free for those that it makes. ``remarks`` go into the audit log
    with each of them.
    """

    create: Sequence[NewEntity] = ()
    update: Sequence[EntityUpdate] = ()
    delete: Sequence[EntityRemoval] = ()
    remarks: Mapping[str, Any] = {}


class CatalogRows(msgspec.Struct, frozen=True):
    """The whole catalog as it was at one revision, with the fields of settings that were set, by
    section."""

    revision: int
    rows: Sequence[EntityRow] = msgspec.field(default_factory=tuple)
    settings: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)


class Page(msgspec.Struct, frozen=True):
    """Part of a list in order of creation. ``total`` counts the whole list; ``next_cursor`` is
    ``None`` on the last page."""

    items: Sequence[EntityRow]
    total: int
    next_cursor: str | None


def to_entity(row: RowMapping) -> EntityRow:
    """The entity in a row of the table ``entities``."""
    return EntityRow(**{name: row[name] for name in EntityRow.__struct_fields__})


def timestamp() -> str:
    """Now, as RFC 3339 in UTC with microseconds; later texts sort after earlier ones."""
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def portions(items: Iterable[T]) -> Iterator[tuple[T, ...]]:
    """``items`` in portions."""
    iterator = iter(items)
    return iter(lambda: tuple(islice(iterator, PORTION)), ())
