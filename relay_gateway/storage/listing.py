"""Lists of entities: filters, searches and orders as SQL, and cursors that continue them."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec
from sqlalchemy import (
    ColumnElement,
    Float,
    Numeric,
    Select,
    and_,
    case,
    cast,
    column,
    exists,
    func,
    literal,
    or_,
    select,
    text,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from relay_gateway.catalog.fields import ListField
from relay_gateway.ids import is_id
from relay_gateway.storage.rows import Page, to_entity
from relay_gateway.storage.tables import entities, entity_columns, entity_references

Value = str | int | float | bool | None

CREATION = ListField("createdAt", "instant", ("id",))
"""The order of creation, exactly: ids of one process increase also within a microsecond."""
STATEMENT_SECONDS = 5
"""How long PostgreSQL may work on one list."""
LARGEST = Decimal(10) ** 18
"""Numbers above this sort as equals: not every number of a document is one to the database."""
_ABSENT: Mapping[str, str | float] = {"text": "", "instant": "", "number": -1.0, "flag": -1.0}
"""What stands for an absent value in an order: it comes before everything else."""
_ESCAPE = "\\"


class InvalidCursorError(ValueError):
    """A cursor that no page of this list ended with."""


class Listing(msgspec.Struct, frozen=True):
    """What a list shows, and in which order.

    ``filters`` gives each field the values of which one must be there; ``None`` stands for an
    absent one, and references are ids or slugs. ``search`` is found in names, slug, description
    and aliases whatever its case. All ``labels`` must be there.
    """

    filters: Sequence[tuple[ListField, Sequence[Value]]] = ()
    labels: Sequence[tuple[str, str]] = ()
    search: str = ""
    sort: ListField = CREATION
    descending: bool = False


class _Position(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Where a page ended: of which list, at which key, at which entity."""

    listing: str
    key: str | float
    id: str


@dataclass(frozen=True, slots=True)
class _Query:
    """One list of one kind on one database."""

    kind: str
    listing: Listing
    expressions: _Expressions = field(repr=False)

    def conditions(self) -> Iterator[ColumnElement[bool]]:
        yield entities.c.kind == self.kind
        for name, value in self.listing.labels:
            yield self.expressions.has_label(name, value)
        if self.listing.search:
            pattern = f"%{_escaped(self.listing.search.casefold())}%"
            yield entities.c.search_text.like(pattern, escape=_ESCAPE)
        for listed, values in self.listing.filters:
            yield or_(*(self._equals(listed, value) for value in values))

    def _equals(self, listed: ListField, value: Value) -> ColumnElement[bool]:
        if listed.type == "reference":
            return _refers(listed, value)
        if value is None:
            return self.expressions.value(listed).is_(None)
        return self.expressions.value(listed) == literal(_comparable(listed, value))

    def key(self) -> ColumnElement[Any]:
        """By what the list is sorted; never NULL, which no comparison could continue after."""
        sort = self.listing.sort
        value = self.expressions.value(sort)
        return value if sort.path[0] != "spec" else func.coalesce(value, _ABSENT[sort.type])

    def after(self, position: _Position) -> ColumnElement[bool]:
        key, id_ = self.key(), entities.c.id
        if self.listing.sort.path == ("id",):
            return id_ < position.id if self.listing.descending else id_ > position.id
        beyond = key < position.key if self.listing.descending else key > position.key
        further = id_ < position.id if self.listing.descending else id_ > position.id
        # The first condition alone bounds a walk along an index; the second picks from there.
        bound = key <= position.key if self.listing.descending else key >= position.key
        return and_(bound, or_(beyond, further))

    def page(self, limit: int, position: _Position | None) -> Select[Any]:
        key = self.key().label("sort_key")
        found = select(entities.c.id, key).where(*self.conditions())
        if position is not None:
            found = found.where(self.after(position))
        # Whole rows are read only once it is known which: sorting them costs more than finding.
        picked = found.order_by(*self._order(key, entities.c.id)).limit(limit).subquery()
        return (
            select(*entity_columns, picked.c.sort_key)
            .join(picked, picked.c.id == entities.c.id)
            .order_by(*self._order(picked.c.sort_key, picked.c.id))
        )

    def _order(self, key: ColumnElement[Any], id_: ColumnElement[str]) -> list[Any]:
        terms = [id_] if self.listing.sort.path == ("id",) else [key, id_]
        return [term.desc() if self.listing.descending else term.asc() for term in terms]

    def total(self) -> Select[Any]:
        return select(func.count()).select_from(entities).where(*self.conditions())

    def digest(self) -> str:
        """What tells this list from others, so that a cursor of another one is noticed."""
        listing = self.listing
        filters = [(listed.name, list(values)) for listed, values in listing.filters]
        content = (
            self.kind, sorted(filters, key=lambda item: item[0]), sorted(listing.labels),
            listing.search, listing.sort.path, listing.descending,
        )  # fmt: skip
        return hashlib.sha256(msgspec.json.encode(content)).hexdigest()[:16]


class _Expressions:
    """The values of fields in the dialect of one database."""

    def __init__(self, dialect: str) -> None:
        self._postgresql = dialect == "postgresql"

    def value(self, listed: ListField) -> ColumnElement[Any]:
        """The value of a field, NULL where it is absent and has no default."""
        if listed.path[0] != "spec":
            found = entities.c[listed.path[0]]
            return cast(found, Float) if listed.type == "number" else found
        inside = entities.c.spec[listed.path[1:]]
        if listed.type == "number":
            value = self._number(inside)
        elif listed.type == "flag":
            value = self._flag(inside)
        else:
            value = self._text(inside, instant=listed.type == "instant")
        if listed.names_slug:
            return func.coalesce(value, entities.c.slug)
        if listed.default is None:
            return value
        default = listed.default if isinstance(listed.default, str) else float(listed.default)
        return func.coalesce(value, default)

    def has_label(self, name: str, value: str) -> ColumnElement[bool]:
        """Whether an entity has the label ``name`` with ``value``."""
        if self._postgresql:
            from sqlalchemy.dialects.postgresql import JSONB

            return cast(entities.c.labels, JSONB).contains({name: value})
        pair = func.json_each(entities.c.labels).table_valued(column("key"), column("value"))
        return exists(select(1).select_from(pair).where(pair.c.key == name, pair.c.value == value))

    def _text(self, inside: Any, *, instant: bool) -> ColumnElement[Any]:
        value: ColumnElement[Any] = inside.as_string()
        if instant:
            # Without the Z a whole second sorts before its fractions.
            value = func.rtrim(value, "Z")
        return value.collate("C") if self._postgresql else value

    def _number(self, inside: Any) -> ColumnElement[Any]:
        if self._postgresql:
            number = func.least(cast(inside.as_string(), Numeric), literal(LARGEST, Numeric))
            return case((func.jsonb_typeof(inside) == "number", cast(number, Float)))
        return func.min(cast(inside.as_string(), Float), float(LARGEST))

    def _flag(self, inside: Any) -> ColumnElement[Any]:
        if self._postgresql:
            return case((inside.as_string() == "true", 1.0), (inside.as_string() == "false", 0.0))
        return cast(inside.as_string(), Float)


async def read_page(
    connection: AsyncConnection, kind: str, listing: Listing, limit: int, cursor: str | None
) -> Page:
    """At most ``limit`` entities of a list, after the page that gave ``cursor``.

    Raises :class:`InvalidCursorError`.
    """
    dialect = connection.dialect.name
    query = _Query(kind, listing, _Expressions(dialect))
    position = _decode(cursor, query) if cursor is not None else None
    if dialect == "postgresql":
        await connection.execute(text(f"SET LOCAL statement_timeout = '{STATEMENT_SECONDS}s'"))
    total = await connection.scalar(query.total())
    rows = (await connection.execute(query.page(limit + 1, position))).mappings().all()
    following = None
    if len(rows) > limit:
        last = rows[limit - 1]
        following = _encode(_Position(query.digest(), last["sort_key"], last["id"]))
    return Page([to_entity(row) for row in rows[:limit]], total or 0, following)


def _refers(listed: ListField, value: Value) -> ColumnElement[bool]:
    start = listed.path[1]
    # An index of a list stands in brackets: bindings[0].hostId.
    pattern = _escaped(start).replace("[]", "[%]")
    pointing = select(entity_references.c.source_id).where(
        entity_references.c.field.like(pattern, escape=_ESCAPE)
    )
    if value is None:
        own = pointing.where(entity_references.c.source_id == entities.c.id)
        return ~exists(own.correlate(entities))
    ref = str(value)
    target = entities.alias("target")
    named = target.c.id == str(UUID(ref)) if is_id(ref) else target.c.slug == ref
    targets = select(target.c.id).where(target.c.kind == listed.target, named)
    return entities.c.id.in_(pointing.where(entity_references.c.target_id.in_(targets)))


def _comparable(listed: ListField, value: str | float) -> str | float:
    """``value`` as it compares with the column: times without their Z, numbers as one type."""
    if listed.type == "instant" and listed.path[0] == "spec":
        return str(value).removesuffix("Z")
    return value if isinstance(value, str) else float(value)


def _escaped(pattern: str) -> str:
    for character in (_ESCAPE, "%", "_"):
        pattern = pattern.replace(character, _ESCAPE + character)
    return pattern


def _encode(position: _Position) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(position)).decode().rstrip("=")


def _decode(cursor: str, query: _Query) -> _Position:
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
        position = msgspec.json.decode(raw, type=_Position)
        if position.listing == query.digest() and _plausible(position, query.listing.sort):
            return position
    except (binascii.Error, ValueError, msgspec.DecodeError):
        pass
    raise InvalidCursorError(
        "the cursor is not one that a page of this list ended with; start without a cursor"
    )


def _plausible(position: _Position, sort: ListField) -> bool:
    texts = sort.type in ("text", "instant")
    keys = (position.key, position.id) if isinstance(position.key, str) else (position.id,)
    return isinstance(position.key, str) == texts and not any("\0" in key for key in keys)
