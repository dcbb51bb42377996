"""From a query's filters to SQL conditions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import ColumnElement, String, and_, cast, false, func, literal, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection

from relay_gateway.plugin import LOG_FILTERS, LogQuery
from relay_gateway_log_database.names import find_numbers
from relay_gateway_log_database.rows import is_id, microseconds, named
from relay_gateway_log_database.tables import (
    NAMES,
    OK,
    OUTCOMES,
    usage_names,
    usage_rows,
)

Wanted = str | int | bool
Condition = ColumnElement[bool]

LARGEST_STATUS = (1 << 31) - 1
FLAGS = frozenset({"streamed", "unpriced"})
TEXT_SEARCHED = (
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
"""Columns of names that ``text`` is looked for in, besides the two ids of a request."""
MOST_NAMES = 1000
"""So many names are looked for by their numbers; more by what they are."""
_OF_A_UUID = re.compile("[0-9a-fA-F-]{1,36}")


def column_name(field: str) -> str:
    """The column of a record field in camelCase."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in field)


def in_period(start_us: int | None, end_us: int | None) -> list[Condition]:
    """Conditions for ``start_us`` ≤ start of the request < ``end_us``."""
    started = usage_rows.c.started_us
    conditions: list[Condition] = []
    if start_us is not None:
        conditions.append(started >= start_us)
    if end_us is not None:
        conditions.append(started < end_us)
    return conditions


def moment(time: str | None) -> int | None:
    """Microseconds of an RFC 3339 time. Raises :class:`ValueError`."""
    return None if time is None else microseconds(time)


async def values_of(
    connection: AsyncConnection, equals: Mapping[str, Wanted]
) -> dict[str, object] | None:
    """What columns must equal, by their names; ``None`` when no record can have it.

    Raises :class:`ValueError` for an unknown field or a value of the wrong kind.
    """
    wanted = {column_name(_known(field)): _value(field, value) for field, value in equals.items()}
    texts = {name: str(value) for name, value in wanted.items() if name in NAMES}
    numbers = await find_numbers(connection, set(texts.values()))
    found = wanted | {name: numbers.get(text) for name, text in texts.items()}
    return None if None in found.values() else found


def equal_to(values: Mapping[str, object]) -> list[Condition]:
    """Conditions on rows for what :func:`values_of` gave."""
    conditions = [usage_rows.c[name] == value for name, value in values.items()]
    # Said once more, for an index that has these rows only.
    if values.get("outcome", OK) != OK:
        conditions.append(usage_rows.c.outcome != OK)
    if values.get("status", 200) != 200:
        conditions.append(usage_rows.c.status != 200)
    return conditions


def _known(field: str) -> str:
    if field not in LOG_FILTERS:
        raise ValueError(
            f"records cannot be filtered by {field!r}; they can by {', '.join(sorted(LOG_FILTERS))}"
        )
    return field


def _value(field: str, value: Wanted) -> object:
    """The value to compare with, a name as its text; ``None`` where no record can have it."""
    if field in FLAGS:
        return _boolean(field, value)
    if field == "status":
        status = _whole_number(field, value)
        return status if status <= LARGEST_STATUS else None
    text = str(value)
    if field == "outcome":
        return OUTCOMES.get(text)
    if field == "requestId":
        return text if is_id(text) else None
    return text if column_name(field) in NAMES else named(text)


def _boolean(field: str, value: Wanted) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return value == "true"
    raise ValueError(f"{field} is true or false, not {value!r}")


def _whole_number(field: str, value: Wanted) -> int:
    text = str(value)
    if text.isascii() and text.isdigit() and len(text) <= 18:
        return int(text)
    raise ValueError(f"{field} is a whole number, not {text[:40]!r}")


def tag_value(dialect: str, name: str) -> ColumnElement[Any]:
    """The value of one tag, NULL where a record does not have it."""
    tags = usage_rows.c.tags
    if dialect == "postgresql":
        value: ColumnElement[Any] = tags[named(name)].as_string()
        return value
    # Not a JSON path: that has no way to write a quotation mark inside a name.
    entry = func.json_each(tags).table_valued("key", "value")
    return select(entry.c.value).where(entry.c.key == named(name)).scalar_subquery()


def tagged(dialect: str, tags: Mapping[str, str]) -> list[Condition]:
    """Conditions that a record has all of ``tags``."""
    if not tags:
        return []
    if dialect == "postgresql":
        wanted = {named(name): named(value) for name, value in tags.items()}
        return [usage_rows.c.tags.op("@>", is_comparison=True)(wanted)]
    present: list[Condition] = [usage_rows.c.tags.is_not(None)]
    return present + [tag_value(dialect, name) == named(value) for name, value in tags.items()]


async def containing(
    connection: AsyncConnection, text: str | None, *, alone: bool
) -> list[Condition]:
    """The condition that ``text`` occurs in an id, a model name or an error code, in any case.

    It leaves out what ``text`` cannot occur in, for each row may have to be looked at: names where
    none has it, and request ids where no UUID can. Client's ids are left then, whose index tells
    sooner than all rows that none has it; it is asked where ``alone``, nothing else, is wanted.
    """
    if not text:
        return []
    sought = named(text)
    has_it = usage_names.c.text.icontains(sought, autoescape=True)
    found = list(await connection.scalars(select(usage_names.c.id).where(has_it).limit(MOST_NAMES)))
    names = found if len(found) < MOST_NAMES else select(usage_names.c.id).where(has_it)
    places: list[Condition] = []
    if found:
        places += [usage_rows.c[name].in_(names) for name in TEXT_SEARCHED]
    places += _in_request_id(connection.dialect.name, sought)
    client = usage_rows.c.client_request_id.icontains(sought, autoescape=True)
    anywhere = select(literal(1)).where(usage_rows.c.client_request_id.is_not(None), client)
    if found or not alone or await connection.scalar(anywhere.limit(1)):
        places.append(client)
    return [or_(*places) if places else false()]


def _in_request_id(dialect: str, sought: str) -> list[Condition]:
    if is_id(sought.lower()):
        return [usage_rows.c.request_id == sought.lower()]
    if not _OF_A_UUID.fullmatch(sought):
        return []
    found = _request_id(dialect).icontains(sought, autoescape=True)
    if dialect == "postgresql":
        return [found]
    # Nearly all that does not match is told by this alone, in a fraction of the time.
    digits = sought.replace("-", "").upper()
    return [and_(func.instr(func.hex(usage_rows.c.request_id), digits) > 0, found)]


def _request_id(dialect: str) -> ColumnElement[str]:
    """The text of the request id."""
    if dialect == "postgresql":
        return cast(usage_rows.c.request_id, String)
    digits = func.lower(func.hex(usage_rows.c.request_id))
    parts = [func.substr(digits, place, size) for place, size in _GROUPS]
    text: ColumnElement[str] = parts[0].op("||")("-")
    for part in parts[1:-1]:
        text = text.op("||")(part).op("||")("-")
    return text.op("||", return_type=String())(parts[-1])


_GROUPS = ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
"""Where the groups of a UUID's text begin among its digits, and how long they are."""


async def conditions_of(connection: AsyncConnection, query: LogQuery) -> Iterable[Condition]:
    """Everything but the cursor. Raises :class:`ValueError` saying what is wrong with the query."""
    dialect = connection.dialect.name
    period = in_period(moment(query.start), moment(query.end))
    values = await values_of(connection, query.equals)
    if values is None:
        return [false()]
    alone = not (query.start or query.equals or query.tags)
    return [
        *period,
        *equal_to(values),
        *tagged(dialect, query.tags),
        *await containing(connection, query.text, alone=alone),
    ]
