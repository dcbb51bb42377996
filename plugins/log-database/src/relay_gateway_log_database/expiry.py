"""Deleting from SQLite what is no longer kept, and giving the space back, in short steps.

One file for all: reading stays one statement. Rows lie in the order of time, so the oldest share
pages, which are free once they are deleted; an incremental vacuum cuts them off the file's end.
"""

from __future__ import annotations

import sqlite3

STEP_ROWS = 2000
STEP_PAGES = 2000


def delete_some(
    connection: sqlite3.Connection, table: str, key: str, before: int, most: int = STEP_ROWS
) -> int:
    """Deletes about ``most`` rows of ``table`` whose ``key`` is less than ``before``, the oldest
    first; returns how many."""
    oldest = connection.execute(
        f"SELECT {key} FROM {table} ORDER BY {key} LIMIT 1 OFFSET ?",  # noqa: S608 - names only
        (most,),
    ).fetchone()
    # All rows of one moment go together, so that the step ends between two moments.
    end = before if oldest is None else min(before, oldest[0] + 1)
    return connection.execute(f"DELETE FROM {table} WHERE {key} < ?", (end,)).rowcount  # noqa: S608


def give_back(connection: sqlite3.Connection) -> int:
    """Returns some of the free pages to the file system; returns how many are left."""
    # As a script: the statement gives back one page each time it is stepped, and has no rows.
    connection.executescript(f"PRAGMA incremental_vacuum({STEP_PAGES})")
    return int(connection.execute("PRAGMA freelist_count").fetchone()[0])


def rebuild(connection: sqlite3.Connection) -> bool:
    """Rewrites a file of version 1, which could not give pages back; returns whether it was one."""
    if connection.execute("PRAGMA auto_vacuum").fetchone()[0] != 0:
        return False
    connection.commit()
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    connection.execute("VACUUM")
    return True
