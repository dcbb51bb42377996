"""What was spent: added to by many processes, each record once, and read by all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import delete, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from relay_gateway.catalog.budgets import Account
from relay_gateway.storage.engine import reading, writing
from relay_gateway.storage.tables import spending, spending_head, spending_positions
from relay_gateway.storage.upsert import insert_into

BATCH = 200
"""How many rows one statement is about."""
MAX_NANOS = (1 << 62) - 1


class SpendingStore:
    """Sums of money in nano-units by :class:`Account`.

    Every method raises :class:`StorageUnavailableError` when the database cannot be asked.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def position(self, spool: str) -> int:
        """Up to which record of a spool everything was added; 0 when nothing was."""
        async with reading(self._engine) as connection:
            return await _position(connection, spool)

    async def add(
        self, amounts: Mapping[Account, int], spool: str, position: int, now: int
    ) -> bool:
        """Adds what the records of a spool up to ``position`` cost, unless that was done before.
        ``now`` is in seconds since the epoch. Returns whether it was added."""
        async with writing(self._engine) as connection:
            # The lock first: whoever comes with the same records waits, and then sees this.
            result = await connection.execute(
                update(spending_head)
                .values(revision=spending_head.c.revision + 1)
                .returning(spending_head.c.revision)
            )
            revision: int = result.scalar_one()
            if await _position(connection, spool) >= position:
                return False
            await _note(connection, spool, position, now)
            # In one order, as every process has it.
            rows = [
                {**account._asdict(), "nanos": min(nanos, MAX_NANOS), "revision": revision}
                for account, nanos in sorted(amounts.items())
                if nanos
            ]
            for start in range(0, len(rows), BATCH):
                await _add(connection, rows[start : start + BATCH])
        return True

    async def since(self, revision: int) -> tuple[int, dict[Account, int]]:
        """The newest revision, and every sum that has changed after ``revision``."""
        columns = spending.c
        async with reading(self._engine) as connection:
            newest: int = (await connection.execute(select(spending_head.c.revision))).scalar_one()
            rows = await connection.execute(select(spending).where(columns.revision > revision))
            found = {Account(*row[:4]): row.nanos for row in rows}
        return newest, found

    async def spent(self, period: str, dimension: str, currency: str) -> dict[str, int]:
        """What each value of a dimension has spent in a period, the largest sum first."""
        columns = spending.c
        async with reading(self._engine) as connection:
            rows = await connection.execute(
                select(columns.value, columns.nanos)
                .where(
                    columns.period == period,
                    columns.dimension == dimension,
                    columns.currency == currency,
                )
                .order_by(columns.nanos.desc(), columns.value)
            )
            return {row.value: row.nanos for row in rows}

    async def prune(self, periods_before: Mapping[int, str], noted_before: int) -> None:
        """Lets go of periods of days, weeks and months that ended long ago, and of positions in
        spools that are gone. ``periods_before`` has a first period to keep by the length of such
        periods' names, which tells them apart."""
        async with writing(self._engine) as connection:
            for length, first in periods_before.items():
                old = spending.c.period < first
                of_this_kind = spending.c.period.like("_" * length)
                await connection.execute(
                    delete(spending).where(old, of_this_kind, spending.c.period != "total")
                )
            await connection.execute(
                delete(spending_positions).where(spending_positions.c.noted_at < noted_before)
            )


async def _position(connection: AsyncConnection, spool: str) -> int:
    found = await connection.execute(
        select(spending_positions.c.position).where(spending_positions.c.spool == spool)
    )
    return found.scalar_one_or_none() or 0


async def _note(connection: AsyncConnection, spool: str, position: int, now: int) -> None:
    statement = insert_into(connection.dialect.name, spending_positions).values(
        spool=spool, position=position, noted_at=now
    )
    await connection.execute(
        statement.on_conflict_do_update(
            index_elements=["spool"],
            set_={"position": statement.excluded.position, "noted_at": statement.excluded.noted_at},
        )
    )


async def _add(connection: AsyncConnection, rows: Sequence[Mapping[str, object]]) -> None:
    statement = insert_into(connection.dialect.name, spending).values(rows)
    await connection.execute(
        statement.on_conflict_do_update(
            index_elements=["period", "dimension", "value", "currency"],
            set_={
                "nanos": spending.c.nanos + statement.excluded.nanos,
                "revision": statement.excluded.revision,
            },
        )
    )
