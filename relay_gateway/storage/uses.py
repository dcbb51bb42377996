"""When relay keys were last used: merged from many processes, beside the catalog."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlalchemy import String, bindparam, literal_column, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.sql.dml import Insert

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.storage.engine import reading, writing
from relay_gateway.storage.tables import entities, relay_key_uses
from relay_gateway.storage.upsert import insert_into

BATCH = 500
"""How many keys one statement is about."""


class RelayKeyUses:
    """Times of last use, as RFC 3339 UTC text, by id of the relay key.

    Every method raises :class:`StorageUnavailableError` when the database cannot be asked.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def merge(self, uses: Mapping[str, str]) -> None:
        """Keeps the later of what is known and ``uses``; keys that are gone are left out. Neither
        the revision of the catalog nor the version of a key changes."""
        # In one order, so that processes that write the same keys never wait for each other.
        rows = [{"key_id": key_id, "used_at": uses[key_id]} for key_id in sorted(uses)]
        for start in range(0, len(rows), BATCH):
            await self._merge(rows[start : start + BATCH])

    async def of(self, key_ids: Sequence[str]) -> dict[str, str]:
        """The times of those keys that were ever used."""
        columns = relay_key_uses.c
        found: dict[str, str] = {}
        async with reading(self._engine) as connection:
            for start in range(0, len(key_ids), BATCH):
                portion = key_ids[start : start + BATCH]
                rows = await connection.execute(
                    select(columns.relay_key_id, columns.last_used_at).where(
                        columns.relay_key_id.in_(portion)
                    )
                )
                found.update((row.relay_key_id, row.last_used_at) for row in rows)
        return found

    async def _merge(self, rows: Sequence[Mapping[str, str]]) -> None:
        try:
            async with writing(self._engine) as connection:
                await connection.execute(_merging(connection.dialect.name), rows)
        except IntegrityError as error:
            # A key was deleted between the look and the insert: the next attempt does not see it.
            raise StorageUnavailableError(
                "a relay key was deleted while its last use was being noted; the call can be "
                "repeated"
            ) from error


def _merging(dialect: str) -> Insert:
    used_at = bindparam("used_at", type_=String).label("last_used_at")
    present = select(entities.c.id, used_at).where(entities.c.id == bindparam("key_id"))
    statement = insert_into(dialect, relay_key_uses).from_select(
        ["relay_key_id", "last_used_at"], present
    )
    later = literal_column("excluded.last_used_at", String)
    return statement.on_conflict_do_update(
        index_elements=["relay_key_id"],
        set_={"last_used_at": later},
        where=relay_key_uses.c.last_used_at < later,
    )
