"""Pages of records, newest first, and the cursor between them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, select, tuple_

from relay_gateway.plugin import LogPage, LogQuery
from relay_gateway_log_database.filters import conditions_of
from relay_gateway_log_database.rows import MAX_INTEGER, record_of
from relay_gateway_log_database.tables import usage_records

MAX_LIMIT = 1000

_position = (usage_records.c.started_us, usage_records.c.request_id)


def page_statement(query: LogQuery, dialect: str) -> Select[Any]:
    """Selects the page and one record more. Raises :class:`ValueError` for a wrong query."""
    if not 1 <= query.limit <= MAX_LIMIT:
        raise ValueError(f"limit is from 1 to {MAX_LIMIT}, not {query.limit}")
    return (
        select(*_position, usage_records.c.record)
        .where(*conditions_of(query, dialect), *_after(query.cursor))
        .order_by(*(column.desc() for column in _position))
        .limit(query.limit + 1)
    )


def page_of(rows: Sequence[Row[Any]], limit: int) -> LogPage:
    """The page that the rows of :func:`page_statement` are."""
    shown = rows[:limit]
    return LogPage(
        items=tuple(record_of(row.record) for row in shown),
        next_cursor=_cursor(shown[-1]) if len(rows) > limit else None,
    )


def _cursor(row: Row[Any]) -> str:
    position = f"{row.started_us}:{row.request_id}"
    return base64.urlsafe_b64encode(position.encode()).decode().rstrip("=")


def _after(cursor: str | None) -> list[ColumnElement[bool]]:
    if cursor is None:
        return []
    try:
        padded = cursor.encode("ascii") + b"=" * (-len(cursor) % 4)
        position = base64.b64decode(padded, altchars=b"-_", validate=True).decode()
        started, separator, request_id = position.partition(":")
        started_us = int(started)
    except (UnicodeError, binascii.Error, ValueError) as error:
        raise _bad_cursor() from error
    if not separator or "\0" in request_id or abs(started_us) > MAX_INTEGER:
        raise _bad_cursor()
    # A row value, so that one index range gives the rest of the list.
    return [tuple_(*_position) < tuple_(started_us, request_id)]


def _bad_cursor() -> ValueError:
    return ValueError("cursor is not one that a page of this list gave: begin again without it")
