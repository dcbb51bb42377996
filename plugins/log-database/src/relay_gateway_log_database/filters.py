"""From a query's filters to SQL conditions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Boolean, ColumnElement, Integer, func, or_, select

from relay_gateway.plugin import LOG_FILTERS, LogQuery
from relay_gateway_log_database.rows import MAX_INTEGER, microseconds, searched
from relay_gateway_log_database.tables import usage_records

Wanted = str | int | bool

TEXT_SEARCHED = (
    "request_id",
    "client_request_id",
    "relay_key_id",
    "policy_id",
    "provider_id",
    "model_id",
    "requested_model",
    "upstream_model",
    "host_id",
    "host_key_id",
    "error_code",
)
"""Columns that ``text`` is looked for in."""


def column_of(field: str) -> ColumnElement[Any]:
    """The column of a record field in camelCase."""
    name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in field)
    return usage_records.c[name]


def in_period(start: str | None, end: str | None) -> list[ColumnElement[bool]]:
    """Conditions for ``start`` ≤ start of the request < ``end``. Raises :class:`ValueError`."""
    conditions = []
    if start is not None:
        conditions.append(usage_records.c.started_us >= microseconds(start))
    if end is not None:
        conditions.append(usage_records.c.started_us < microseconds(end))
    return conditions


def equal_to(equals: Mapping[str, Wanted]) -> list[ColumnElement[bool]]:
    """One condition per field. Raises :class:`ValueError` for an unknown field or a bad value."""
    return [column_of(_known(field)) == _wanted(field, value) for field, value in equals.items()]


def _known(field: str) -> str:
    if field not in LOG_FILTERS:
        raise ValueError(
            f"records cannot be filtered by {field!r}; they can by {', '.join(sorted(LOG_FILTERS))}"
        )
    return field


def _wanted(field: str, value: Wanted) -> object:
    kind = column_of(field).type
    if isinstance(kind, Boolean):
        return _boolean(field, value)
    if isinstance(kind, Integer):
        return _whole_number(field, value)
    return searched(str(value))


def _boolean(field: str, value: Wanted) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise ValueError(f"{field} is true or false, not {value!r}")


def _whole_number(field: str, value: Wanted) -> int:
    text = str(value)
    if text.isascii() and text.isdigit() and len(text) <= 19 and int(text) <= MAX_INTEGER:
        return int(text)
    raise ValueError(f"{field} is a whole number, not {text[:40]!r}")


def tag_value(dialect: str, name: str) -> ColumnElement[Any]:
    """The value of one tag, NULL where a record does not have it."""
    tags = usage_records.c.tags
    if dialect == "postgresql":
        value: ColumnElement[Any] = tags[searched(name)].as_string()
        return value
    # Not a JSON path: that has no way to write a quotation mark inside a name.
    entry = func.json_each(tags).table_valued("key", "value")
    return select(entry.c.value).where(entry.c.key == searched(name)).scalar_subquery()


def tagged(dialect: str, tags: Mapping[str, str]) -> list[ColumnElement[bool]]:
    """Conditions that a record has all of ``tags``."""
    if dialect == "postgresql" and tags:
        wanted = {searched(name): searched(value) for name, value in tags.items()}
        return [usage_records.c.tags.op("@>", is_comparison=True)(wanted)]
    return [tag_value(dialect, name) == searched(value) for name, value in tags.items()]


def containing(text: str | None) -> list[ColumnElement[bool]]:
    """The condition that ``text`` occurs in an id, a model name or an error code, in any case."""
    if not text:
        return []
    columns = [usage_records.c[name] for name in TEXT_SEARCHED]
    return [or_(*(column.icontains(searched(text), autoescape=True) for column in columns))]


def conditions_of(query: LogQuery, dialect: str) -> list[ColumnElement[bool]]:
    """Everything but the cursor. Raises :class:`ValueError` saying what is wrong with the query."""
    return [
        *in_period(query.start, query.end),
        *equal_to(query.equals),
        *tagged(dialect, query.tags),
        *containing(query.text),
    ]
