"""Writes batches to SQLite: one transaction, in few and long statements, in threads."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Sequence
from functools import cache
from typing import Self

from relay_gateway.plugin import PluginContext, UsageRecord
from relay_gateway_log_database.rows import COLUMNS, row_of, slices

ROWS = 100
"""Rows per statement, which takes a thread about a millisecond."""


class SqliteWriter:
    """The one connection of this process that writes.

    The event loop hands each statement to a thread, so that the thread has Python's lock, or the
    processor where there is only one, for no longer than a statement takes. A statement per row
    would spend more on handing over than on the rows.
    """

    def __init__(self, connection: sqlite3.Connection, context: PluginContext) -> None:
        self._connection = connection
        self._context = context
        self._turn = asyncio.Lock()
        most = connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER) // len(COLUMNS)
        self._rows = min(ROWS, most)  # libraries before 3.32 take 999 values, so fewer rows

    @classmethod
    async def open(cls, path: str, patience: float, context: PluginContext) -> Self:
        """Connects to a database that has the tables; waits ``patience`` seconds for its lock."""
        return cls(await context.run_blocking(_connect, path, patience), context)

    async def write(self, records: Sequence[UsageRecord]) -> None:
        """Stores a batch, all of it or nothing. Raises :class:`ValueError` for a bad time."""
        run = self._context.run_blocking
        async with self._turn:
            try:
                for batch in slices(records, self._rows):
                    await run(self._insert, batch)
                await run(self._connection.commit)
            except BaseException:
                await run(self._connection.rollback)
                raise

    async def aclose(self) -> None:
        """Closes the connection; where it is the last one, SQLite tidies its files up."""
        await self._context.run_blocking(self._connection.close)

    def _insert(self, records: Sequence[UsageRecord]) -> None:
        values: list[object] = []
        for record in records:
            values += row_of(record)
        self._connection.execute(_statement(len(records)), values)


def _connect(path: str, patience: float) -> sqlite3.Connection:
    # The first insertion begins a transaction. Threads take turns, by SqliteWriter._turn.
    connection = sqlite3.connect(
        path, timeout=patience, isolation_level="IMMEDIATE", check_same_thread=False
    )
    try:
        # Whoever handed a record over forgets it once it is here: it must outlive a power cut.
        connection.execute("PRAGMA synchronous=FULL")
    except BaseException:
        connection.close()
        raise
    return connection


@cache
def _statement(rows: int) -> str:
    row = f"({','.join('?' * len(COLUMNS))})"
    return (
        f"INSERT INTO usage_records ({','.join(COLUMNS)}) "  # noqa: S608 - names of columns only
        f"VALUES {','.join([row] * rows)} ON CONFLICT (request_id) DO NOTHING"
    )
