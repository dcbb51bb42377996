"""Writes batches to PostgreSQL: one transaction, each statement with one array per column."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.plugin import UsageRecord
from relay_gateway_log_database.rows import COLUMNS, row_of, slices
from relay_gateway_log_database.tables import usage_records

ROWS = 50
"""Rows per statement. Making them and their arrays takes the event loop less than a millisecond."""


class PostgresqlWriter:
    """Takes a connection of the engine's and speaks to its driver without SQLAlchemy, whose work
    per row costs more than the driver's."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def write(self, records: Sequence[UsageRecord]) -> None:
        """Stores a batch, all of it or nothing. Raises :class:`ValueError` for a bad time."""
        # In one order, so that two instances with the same records cannot wait for each other.
        ordered = sorted(records, key=lambda record: record.request_id)
        async with self._engine.connect() as connection:
            driver: Any = (await connection.get_raw_connection()).driver_connection
            async with driver.transaction():
                for batch in slices(ordered, ROWS):
                    await driver.execute(INSERT, *zip(*map(row_of, batch), strict=True))

    async def aclose(self) -> None:
        """Nothing: the connections are the engine's."""


def _arrays() -> str:
    dialect = postgresql.dialect()  # type: ignore[no-untyped-call]
    types = (column.type.compile(dialect) for column in usage_records.columns)
    return ", ".join(f"${place}::{kind}[]" for place, kind in enumerate(types, start=1))


INSERT = (
    f"INSERT INTO usage_records ({', '.join(COLUMNS)}) "  # noqa: S608 - names of columns only
    f"SELECT * FROM unnest({_arrays()}) ON CONFLICT (request_id) DO NOTHING"
)
