"""A glance at a SQLite file: whether anything was committed to it since the last one.

It takes a tenth of a millisecond, where a transaction through the engine wakes a thread and takes
milliseconds of a process that has something else to do. SQLite promises that ``data_version`` of
one connection differs after any other connection, of this process or of another, has committed.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from urllib.parse import quote

from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine


class Glance:
    """Looks at the file of ``engine`` over a connection of its own, which only looks, never waits
    for a lock, and is closed when the engine is disposed of."""

    def __init__(self, engine: AsyncEngine) -> None:
        on_disk = engine.dialect.name == "sqlite" and engine.url.database
        self._path = Path(engine.url.database or "").absolute() if on_disk else None
        self._connection: sqlite3.Connection | None = None
        if on_disk:
            event.listen(engine.sync_engine, "engine_disposed", lambda _engine: self.close())

    def version(self) -> int | None:
        """A number that is another one when something was committed in between; ``None`` where
        that is not to be known: another database, no file yet, one that is locked."""
        if self._path is None:
            return None
        try:
            if self._connection is None:
                self._connection = self._connect(self._path)
            row: tuple[int] = self._connection.execute("PRAGMA data_version").fetchone()
        except sqlite3.Error:
            # Another connection may count differently, so its numbers must not be compared.
            self.close()
            return None
        return row[0]

    def close(self) -> None:
        """Closes the connection; the next glance opens another one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @staticmethod
    def _connect(path: Path) -> sqlite3.Connection:
        # A file that is not there must not be made. It may write, because who closes a database
        # last moves what is in its log to its file.
        address = f"file:{quote(str(path))}?mode=rw"
        return sqlite3.connect(
            address, timeout=0, isolation_level=None, check_same_thread=False, uri=True
        )
