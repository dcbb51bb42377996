"""What goes into the catalog store and what comes out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
from sqlalchemy import RowMapping

from relay_gateway.catalog.envelope import EntityRow, ManagedBy
from relay_gateway.ids import new_id


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
    """The new content of an entity; ``slug`` ``None`` keeps the one it has."""

    display_name: str
    spec: dict[str, Any]
    slug: str | None = None
    description: str = ""
    labels: dict[str, str] = {}
    sealed: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class CatalogRows:
    """The whole catalog as it was at one revision, with the fields of settings that were set, by
    section."""

    revision: int
    rows: Sequence[EntityRow] = field(default_factory=tuple)
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Page:
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
