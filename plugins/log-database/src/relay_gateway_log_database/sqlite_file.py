"""The one connection of this process that writes to a SQLite file, in threads and in turns."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol, Self, TypeVar

from relay_gateway.plugin import PluginContext

CACHE_KIB = 16_384
CHECKPOINT_PAGES = 4_096
STATEMENTS = 96
"""How many statements stay prepared. One for a hundred rows takes a quarter of a megabyte, so there
are few of that size; see ``sqlite_writer.portions``."""
T = TypeVar("T")


class Run(Protocol):
    """Runs a call in a thread."""

    def __call__(self, call: Callable[..., T], *args: object) -> Awaitable[T]:
        """The result of ``call(*args)``."""


class SqliteFile:
    """A file that is open for writing. ``connection`` may be used within :meth:`transaction`."""

    def __init__(self, connection: sqlite3.Connection, context: PluginContext) -> None:
        self.connection = connection
        self._context = context
        self._turn = asyncio.Lock()

    @classmethod
    async def open(cls, path: str, patience: float, context: PluginContext) -> Self:
        """Connects to the file, which is there; waits ``patience`` seconds for its lock."""
        return cls(await context.run_blocking(_connect, path, patience), context)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Run]:
        """A transaction: what is changed in it is kept together, or not at all."""
        run = self._context.run_blocking
        async with self._turn:
            try:
                yield run
                await run(self.connection.commit)
            except BaseException:
                await run(self.connection.rollback)
                raise

    async def change(self, call: Callable[[sqlite3.Connection], T]) -> T:
        """Runs ``call`` in a transaction of its own."""
        async with self.transaction() as run:
            return await run(call, self.connection)

    async def aclose(self) -> None:
        """Closes the connection; where it is the last one, SQLite tidies its files up."""
        await self._context.run_blocking(self.connection.close)


def _connect(path: str, patience: float) -> sqlite3.Connection:
    # The first change begins a transaction. Threads take turns, by SqliteFile._turn.
    connection = sqlite3.connect(
        path,
        timeout=patience,
        isolation_level="IMMEDIATE",
        check_same_thread=False,
        cached_statements=STATEMENTS,
    )
    try:
        # Whoever handed a record over forgets it once it is here: it must outlive a power cut.
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA temp_store=MEMORY")
        # Each of a dozen indexes is written to in hundreds of places in turns. With room for those,
        # and with changes of the same pages collected for longer, millions of rows are written at
        # three quarters of the cost.
        connection.execute(f"PRAGMA cache_size=-{CACHE_KIB}")
        connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
    except BaseException:
        connection.close()
        raise
    return connection
