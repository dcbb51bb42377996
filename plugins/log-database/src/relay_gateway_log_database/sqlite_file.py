"""The one connection of this process that writes to a SQLite file, in threads and in turns."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from typing import Final, Self, TypeVar

from relay_gateway.plugin import PluginContext

CACHE_KIB = 16_384
CHECKPOINT_PAGES = 4_096
STATEMENTS = 96
"""How many statements stay prepared. One for a hundred rows takes a quarter of a megabyte, so there
are few of that size; see ``sqlite_writer.portions``."""
T = TypeVar("T")
_DONE: Final = object()


class SqliteFile:
    """A file that is open for writing. ``connection`` may be used by what a change calls."""

    def __init__(self, connection: sqlite3.Connection, context: PluginContext) -> None:
        self.connection = connection
        self._context = context
        self._turn = asyncio.Lock()

    @classmethod
    async def open(cls, path: str, patience: float, context: PluginContext) -> Self:
        """Connects to the file, which is there; waits ``patience`` seconds for its lock."""
        return cls(await context.run_blocking(_connect, path, patience), context)

    async def change(self, call: Callable[[sqlite3.Connection], T]) -> T:
        """Runs ``call`` in a thread; what it changes is kept together, or not at all."""
        async with self._turn:
            return await self._context.run_blocking(self._changed, call)

    async def change_by_steps(self, steps: Iterator[object]) -> None:
        """Runs through ``steps``, each in a thread for itself; what they change is kept together,
        or not at all."""
        run = self._context.run_blocking
        async with self._turn:
            try:
                while await run(next, steps, _DONE) is not _DONE:
                    pass
                await run(self.connection.commit)
            except BaseException:
                await run(self.connection.rollback)
                raise

    def _changed(self, call: Callable[[sqlite3.Connection], T]) -> T:
        try:
            result = call(self.connection)
            self.connection.commit()
        except BaseException:
            self.connection.rollback()
            raise
        return result

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
