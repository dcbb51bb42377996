"""List parameters: one filter per field of a kind, searches, labels and orders, strictly read."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter, ValidationError
from starlette.datastructures import QueryParams

from relay_gateway.catalog import patterns
from relay_gateway.catalog.fields import ListField, list_fields
from relay_gateway.catalog.kinds import Kind
from relay_gateway.control.problems import RefusedError
from relay_gateway.ids import is_id, is_slug
from relay_gateway.storage import Listing
from relay_gateway.storage.listing import Value

MAX_VALUES = 32
"""How many values one filter, and how many labels one list may have."""
MAX_LENGTH = 4096
STORABLE = {"pattern": "^[^\\u0000]*$"}
"""As JSON Schema: no database keeps a NUL character."""
_BOOLEANS = {"true": True, "false": False}
_NUMBER = re.compile(r"-?[0-9]+(?:[.][0-9]+)?(?:[eE][+-]?[0-9]+)?")
_NUMBER_OR_NONE = "^(?:-?[0-9]{1,200}(?:[.][0-9]+)?(?:[eE][+-]?[0-9]{1,2})?)?$"
"""As :data:`_NUMBER`, no larger than a floating-point number can be."""
_INSTANT = TypeAdapter(datetime)
_SCHEMAS: dict[str, dict[str, Any]] = {
    "text": {"type": "string", "maxLength": MAX_LENGTH, **STORABLE},
    "number": {"type": "number"},
    "flag": {"type": "boolean"},
    "instant": {"type": "string", "format": "date-time"},
    "reference": {"type": "string", "anyOf": [patterns.SLUG, {"format": "uuid"}]},
}


def list_parameters(kind: Kind) -> list[dict[str, Any]]:
    """The order and the filters of a kind as OpenAPI parameters."""
    orders = [f"{sign}{name}" for name in _sortable(kind) for sign in ("", "-")]
    sort = {
        "name": "sort",
        "in": "query",
        "required": False,
        "description": "A field, with `-` before it descending; ties in order of creation.",
        "schema": {"type": "string", "enum": orders},
    }
    return [sort, *(_parameter(field) for field in list_fields(kind).values())]


def read_listing(kind: Kind, query: QueryParams, search: str, labels: Sequence[str]) -> Listing:
    """What a list's parameters ask for. Raises :class:`RefusedError` (400) naming the parameter."""
    for name, value in query.multi_items():
        if "\0" in value:
            raise _refused(name, "contains a NUL character, which nothing in the catalog does")
    fields = [field for name, field in list_fields(kind).items() if name in query]
    asked = [(field, _values(field, query.getlist(field.name))) for field in fields]
    sort = query.get("sort")
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
    schema = _with_absence(field, schema)
    return {**described, "schema": {"type": "array", "items": schema, "maxItems": MAX_VALUES}}


def _with_absence(field: ListField, schema: dict[str, Any]) -> dict[str, Any]:
    """``schema`` with the empty text where that asks for entities without a value."""
    absent = _can_be_absent(field)
    if field.type == "reference" and absent:
        return {**schema, "anyOf": [*schema["anyOf"], {"const": ""}]}
    if field.type == "text":
        return schema if absent or field.path[0] != "spec" else {**schema, "minLength": 1}
    if field.type == "number" and absent:
        # Not a choice of number and text: in a query string every number is a text as well.
        return {"type": "string", "pattern": _NUMBER_OR_NONE}
    return {"anyOf": [schema, {"type": "string", "const": ""}]} if absent else schema


def _can_be_absent(field: ListField) -> bool:
    return field.path[0] == "spec" and field.default is None and not field.names_slug


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
    if not _can_be_absent(field):
        raise _refused(field.name, "is empty, and every entity has a value of it")


def _flag(field: ListField, text: str) -> bool:
    if text not in _BOOLEANS:
        raise _refused(field.name, "must be true or false")
    return _BOOLEANS[text]


def _number(field: ListField, text: str) -> float:
    number = float(text) if _NUMBER.fullmatch(text) else math.nan
    if not math.isfinite(number):
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
        names = ", ".join(_sortable(kind))
        raise _refused("sort", f"{name!r} is nothing to sort by; there are: {names}")
    return field


def _sortable(kind: Kind) -> list[str]:
    return sorted(name for name, field in list_fields(kind).items() if field.sortable)


def _refused(name: str, message: str) -> RefusedError:
    return RefusedError(400, "invalid_parameter", f"{name}: {message}")
