"""List parameters: one filter per field of a kind, searches, labels and orders, strictly read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import QueryParams

from relay_gateway.catalog.fields import ListField, list_fields
from relay_gateway.catalog.kinds import Kind
from relay_gateway.control.problems import RefusedError
from relay_gateway.ids import is_id, is_slug
from relay_gateway.storage import Listing
from relay_gateway.storage.listing import Value

MAX_VALUES = 32
"""How many values one filter, and how many labels one list may have."""
MAX_LENGTH = 4096
_BOOLEANS = {"true": True, "false": False}
_INSTANT = TypeAdapter(datetime)
_SCHEMAS: dict[str, dict[str, Any]] = {
    "text": {"type": "string", "maxLength": MAX_LENGTH},
    "number": {"type": "number"},
    "flag": {"type": "boolean"},
    "instant": {"type": "string", "format": "date-time"},
    "reference": {"type": "string", "maxLength": 63},
}


def filter_parameters(kind: Kind) -> list[dict[str, Any]]:
    """The filters of a kind as OpenAPI parameters."""
    return [_parameter(field) for field in list_fields(kind).values()]


def sort_description(kind: Kind) -> str:
    """What lists of a kind can be sorted by, for documentation."""
    return f"a field, with `-` before it descending: {_names(kind)}; ties in order of creation"


def read_listing(
    kind: Kind, query: QueryParams, sort: str | None, search: str, labels: Sequence[str]
) -> Listing:
    """What a list's parameters ask for. Raises :class:`RefusedError` (400) naming the parameter."""
    for name, value in query.multi_items():
        if "\0" in value:
            raise _refused(name, "contains a NUL character, which nothing in the catalog does")
    fields = [field for name, field in list_fields(kind).items() if name in query]
    asked = [(field, _values(field, query.getlist(field.name))) for field in fields]
    descending = sort is not None and sort.startswith("-")
    order = {} if sort is None else {"sort": _sort_field(kind, sort.removeprefix("-"))}
    return Listing(
        filters=asked,
        labels=_labels(labels),
        search=search,
        descending=descending,
        **order,
    )


def _parameter(field: ListField) -> dict[str, Any]:
    schema = _SCHEMAS[field.type]
    described: dict[str, Any] = {"name": field.name, "in": "query", "required": False}
    if field.target is not None:
        described["description"] = f"id or slug of a {field.target}"
    return {**described, "schema": {"type": "array", "items": schema, "maxItems": MAX_VALUES}}


def _values(field: ListField, given: Sequence[str]) -> list[Value]:
    if len(given) > MAX_VALUES:
        raise _refused(field.name, f"has {len(given)} values; {MAX_VALUES} are possible")
    return [_value(field, text) for text in given]


def _value(field: ListField, text: str) -> Value:
    """One value of a filter; an empty text asks for entities that have none."""
    if len(text) > MAX_LENGTH:
        raise _refused(field.name, f"is longer than {MAX_LENGTH} characters")
    if not text and field.path[0] == "spec":
        _check_absence(field)
        return None
    if field.type == "text":
        return text
    if field.type == "flag":
        return _flag(field, text)
    if field.type == "number":
        return _number(field, text)
    return _instant(field, text) if field.type == "instant" else _reference(field, text)


def _check_absence(field: ListField) -> None:
    if field.default is not None or field.names_slug:
        raise _refused(field.name, "is empty, and every entity has a value of it")


def _flag(field: ListField, text: str) -> bool:
    if text not in _BOOLEANS:
        raise _refused(field.name, "must be true or false")
    return _BOOLEANS[text]


def _number(field: ListField, text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or "_" in text:
        raise _refused(field.name, "must be a number")
    return number


def _instant(field: ListField, text: str) -> str:
    # Without the check a number would be read as seconds.
    try:
        moment = _INSTANT.validate_python(text) if "T" in text.upper() else None
    except ValidationError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise _refused(field.name, "must be a time with its offset, as 2030-01-31T00:00:00Z")
    try:
        moment = moment.astimezone(UTC)
    except OverflowError:
        raise _refused(field.name, "lies outside the years 1 to 9999 in UTC") from None
    timespec = "auto" if field.path[0] == "spec" else "microseconds"
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


def _reference(field: ListField, text: str) -> str:
    if not (is_id(text) or is_slug(text)):
        raise _refused(field.name, f"must be the id or slug of a {field.target}")
    return text


def _labels(given: Sequence[str]) -> list[tuple[str, str]]:
    if len(given) > MAX_VALUES:
        raise _refused("label", f"stands {len(given)} times; {MAX_VALUES} are possible")
    return [_label(text) for text in given]


def _label(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not (name and separator):
        raise _refused("label", "must have the form NAME=VALUE")
    return name, value


def _sort_field(kind: Kind, name: str) -> ListField:
    field = list_fields(kind).get(name)
    if field is None or not field.sortable:
        raise _refused("sort", f"{name!r} is nothing to sort by; there are: {_names(kind)}")
    return field


def _names(kind: Kind) -> str:
    return ", ".join(sorted(name for name, field in list_fields(kind).items() if field.sortable))


def _refused(name: str, message: str) -> RefusedError:
    return RefusedError(400, "invalid_parameter", f"{name}: {message}")
