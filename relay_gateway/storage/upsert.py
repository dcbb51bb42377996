"""Inserts that may meet a row that is there already, on each database in its own words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import Table

if TYPE_CHECKING:
    from sqlalchemy.dialects import postgresql, sqlite


def insert_into(dialect: str, table: Table) -> postgresql.Insert | sqlite.Insert:
    """An insert that knows ``on_conflict_do_update``; ``dialect`` is the name of the database's."""
    # Each where it is needed: most processes meet one of the two only.
    if dialect == "postgresql":
        from sqlalchemy.dialects.postgresql import insert

        return insert(table)
    from sqlalchemy.dialects.sqlite import insert as insert_sqlite

    return insert_sqlite(table)
