"""Pages of records, newest first, and the cursor between them."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, literal, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from relay_gateway.plugin import LogPage, LogQuery, UsageRecord
from relay_gateway_log_database.filters import Condition, conditions_of
from relay_gateway_log_database.names import Texts
from relay_gateway_log_database.rows import MAX_INTEGER, is_id, numbers_in, record_of
from relay_gateway_log_database.tables import RequestId, usage_rows

MAX_LIMIT = 1000

_position = (usage_rows.c.started_us, usage_rows.c.request_id)


async def read_page(connection: AsyncConnection, texts: Texts, query: LogQuery) -> LogPage:
    """A page of records. Raises :class:`ValueError` for a wrong query."""
    if not 1 <= query.limit <= MAX_LIMIT:
        raise ValueError(f"limit is from 1 to {MAX_LIMIT}, not {query.limit}")
    after = _after(query.cursor)
    wanted = page_statement([*await conditions_of(connection, query), *after], query.limit)
    rows = (await connection.execute(wanted)).all()
    shown = rows[: query.limit]
    names = await texts.of(connection, numbers_in(shown))
    return LogPage(
        items=tuple(record_of(row, names) for row in shown),
        next_cursor=_cursor(shown[-1]) if len(rows) > query.limit else None,
    )


async def read_one(
    connection: AsyncConnection, texts: Texts, request_id: str
) -> UsageRecord | None:
    """The record with that id, or ``None``."""
    if not is_id(request_id):
        return None
    wanted = select(usage_rows).where(usage_rows.c.request_id == request_id)
    row = (await connection.execute(wanted)).first()
    if row is None:
        return None
    return record_of(row, await texts.of(connection, numbers_in([row])))


def page_statement(conditions: Iterable[Condition], limit: int) -> Select[Any]:
    """Selects the page and one record more."""
    return (
        select(usage_rows)
        .where(*conditions)
        .order_by(*(column.desc() for column in _position))
        .limit(limit + 1)
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
        started, _, request_id = position.partition(":")
        started_us = int(started)
    except (UnicodeError, binascii.Error, ValueError) as error:
        raise _bad_cursor() from error
    if not is_id(request_id) or abs(started_us) > MAX_INTEGER:
        raise _bad_cursor()
    return [
        # A row value, so that one index range gives the rest of the list.
        tuple_(*_position) < tuple_(literal(started_us), literal(request_id, RequestId())),
        # It alone would not tell PostgreSQL which days there is nothing in.
        usage_rows.c.started_us <= started_us,
    ]


def _bad_cursor() -> ValueError:
    return ValueError("cursor is not one that a page of this list gave: begin again without it")
