"""What a database is asked."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine


@contextmanager
def statements(engine: AsyncEngine) -> Iterator[list[str]]:
    """Every statement that goes through ``engine`` meanwhile."""
    asked: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        asked.append(statement)

    event.listen(engine.sync_engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        event.remove(engine.sync_engine, "before_cursor_execute", note)
