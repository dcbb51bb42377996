"""Parameters of the log and of usage: which records are meant, and how they are grouped."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

from fastapi import Query
from pydantic import Field
from starlette.datastructures import QueryParams

from relay_gateway.control.problems import RefusedError
from relay_gateway.plugin import LOG_DIMENSIONS, LOG_FILTERS

TOP = 10
"""Groups of a series that have points of their own, where nothing else is asked for: a month by the
hour has 7 920 points then."""
MOST_GROUPS = 1000
_AGE = re.compile(r"(\d{1,9})([smhd])")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
_BOOLEANS = {"true": True, "false": False}
_NUMBERS = frozenset({"status"})
_FLAGS = frozenset({"streamed", "unpriced"})

_STORABLE = "[^\\u0000]"
_DIMENSION = f"(?:{'|'.join(LOG_DIMENSIONS)}|tag:[!-+.-~]{{1,64}})"
_SINCE = {
    "anyOf": [
        {"type": "string", "pattern": "^[0-9]{1,6}[smhd]$"},
        {"type": "string", "format": "date-time"},
    ]
}
Filter = Annotated[
    str | None, Query(max_length=512, json_schema_extra={"pattern": f"^{_STORABLE}*$"})
]
Moment = Annotated[
    str | None,
    Query(
        max_length=64,
        description="RFC 3339, with its offset from UTC",
        json_schema_extra={"format": "date-time"},
    ),
]
Tag = Annotated[str, Field(json_schema_extra={"pattern": f"^[^:\\u0000]+:{_STORABLE}*$"})]
Tags = Annotated[list[Tag] | None, Query(max_length=16, description="`name:value`, repeatable")]


GroupBy = Annotated[
    str,
    Query(
        alias="groupBy",
        max_length=512,
        description=f"comma-separated: {', '.join(LOG_DIMENSIONS)}, tag:NAME",
        json_schema_extra={"pattern": f"^(?:{_DIMENSION}(?:,{_DIMENSION})*)?$"},
    ),
]
Top = Annotated[
    int,
    Query(
        ge=1,
        le=MOST_GROUPS,
        description="how many groups have points of their own, those with the most requests first; "
        "10 where it is not said",
    ),
]
Since = Annotated[
    str | None,
    Query(
        max_length=64,
        description="an age (`15m`, `24h`, `7d`) or a time; not together with `from`",
        json_schema_extra=_SINCE,
    ),
]


def filter_parameter(name: str) -> dict[str, Any]:
    """How a filter is documented."""
    schema: dict[str, Any] = {"type": "string", "pattern": f"^{_STORABLE}*$"}
    if name in _NUMBERS:
        schema = {"type": "integer", "minimum": 0, "maximum": 999_999_999}
    if name in _FLAGS:
        schema = {"type": "boolean"}
    return {"name": name, "in": "query", "required": False, "schema": schema}


def read_filters(parameters: QueryParams) -> Mapping[str, str | int | bool]:
    """The filters by record fields, typed. Raises :class:`RefusedError` (400)."""
    return {
        name: _filter_value(name, value)
        for name, value in parameters.items()
        if name in LOG_FILTERS
    }


def _filter_value(name: str, value: str) -> str | int | bool:
    if name in _NUMBERS:
        if not (value.isascii() and value.isdigit() and len(value) <= 9):
            raise refused(f"{name}: must be a whole number")
        return int(value)
    if name in _FLAGS:
        if value not in _BOOLEANS:
            raise refused(f"{name}: must be true or false")
        return _BOOLEANS[value]
    return read_text(name, value)


def read_text(name: str, value: str) -> str:
    """A text that a database can look for. Raises :class:`RefusedError` (400)."""
    if "\0" in value:
        raise refused(f"{name}: must not contain a NUL character")
    return value


def read_tags(pairs: Sequence[str]) -> Mapping[str, str]:
    """Wanted tags, from ``name:value``. Raises :class:`RefusedError` (400)."""
    tags = {}
    for pair in pairs:
        name, colon, value = pair.partition(":")
        if not name or not colon or "\0" in pair:
            raise refused(f"tag: must be name:value, not {pair!r}")
        tags[name] = value
    return tags


def read_dimensions(text: str) -> tuple[str, ...]:
    """Dimensions to group by. Raises :class:`RefusedError` (400)."""
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in LOG_DIMENSIONS and not (name.startswith("tag:") and len(name) > 4):
            known = ", ".join(LOG_DIMENSIONS)
            raise refused(f"groupBy: {name!r} is no dimension; there are: {known}, tag:NAME")
    return names


def read_start(since: str | None, from_: str | None) -> str | None:
    """Where the wanted time begins. Raises :class:`RefusedError` (400)."""
    if since is not None and from_ is not None:
        raise refused("since and from cannot be combined; use one of them")
    return _since(since) if since is not None else read_moment("from", from_)


def _since(text: str) -> str | None:
    age = _AGE.fullmatch(text)
    if age is None:
        return read_moment("since", text)
    try:
        return _text(datetime.now(UTC) - timedelta(**{_UNITS[age[2]]: int(age[1])}))
    except OverflowError:
        raise refused(f"since: {text!r} lies before the year 1") from None


def read_moment(name: str, text: str | None) -> str | None:
    """A time of a parameter as RFC 3339 in UTC. Raises :class:`RefusedError` (400)."""
    if text is None:
        return None
    try:
        # In a query string an unescaped "+" arrives as a space.
        moment = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
        if moment.tzinfo is None:
            raise ValueError("no offset")
        return _text(moment.astimezone(UTC))
    except (ValueError, OverflowError):
        raise refused(f"{name}: must be a time like 2026-01-31T12:00:00Z, not {text!r}") from None


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


def refused(message: str) -> RefusedError:
    """The refusal of a parameter, which the message names."""
    return RefusedError(400, "invalid_parameter", message)
