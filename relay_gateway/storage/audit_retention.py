"""Pruning the audit log: its oldest part goes, and what stays can still be verified.

The checkpoint keeps number and hash of the last record that went, signed with a key that is not in
the database. The next record follows that hash, so nothing can go unnoticed that was not pruned.
"""

from __future__ import annotations

from typing import Protocol

from sqlalchemy import delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from relay_gateway.storage.audit import AuditEvent, record, signed_content
from relay_gateway.storage.engine import reading, writing
from relay_gateway.storage.tables import audit_checkpoint, audit_head, audit_records

KIND = "audit log"
PORTION = 5000
"""So many records at most go in one transaction."""


class Signing(Protocol):
    """Who signs checkpoints."""

    def sign(self, content: bytes) -> str:
        """A signature of 64 hex digits."""

    def accepts(self, content: bytes, signature: str) -> bool:
        """Whether it is a signature of ``content``."""


class AuditRetention:
    """Every method raises :class:`StorageUnavailableError` when the database cannot be asked."""

    def __init__(self, engine: AsyncEngine, signing: Signing) -> None:
        self._engine = engine
        self._signing = signing

    async def prune(self, before: str, *, portion: int = PORTION) -> int:
        """Deletes the oldest records up to the first that is not older than ``before`` (RFC 3339);
        how many went. Each portion leaves a record of itself."""
        async with reading(self._engine) as connection:
            newest = await _newest(connection)
        pruned = 0
        # Never the records of this pruning itself, however wrong the clock is.
        while went := await self._prune_some(before, newest, portion):
            pruned += went
        return pruned

    async def renew_signature(self) -> None:
        """Signs the checkpoint with the current key, if another that is known has signed it."""
        async with writing(self._engine) as connection:
            row = (await connection.execute(select(audit_checkpoint))).mappings().one()
            content = signed_content(row["sequence"], row["hash"])
            signature = row["signature"]
            if not signature or not self._signing.accepts(content, signature):
                return
            renewed = self._signing.sign(content)
            if renewed != signature:
                await connection.execute(update(audit_checkpoint).values(signature=renewed))

    async def _prune_some(self, before: str, newest: int, portion: int) -> int:
        if not await self._is_due(before):
            return 0
        async with writing(self._engine) as connection:
            # Whoever appends or prunes waits: the end of the pruned part is decided by one.
            await connection.execute(select(audit_head.c.id).with_for_update())
            kept_from = await _sequence_after(connection)
            last = min(await _last_older(connection, before), newest, kept_from + portion)
            if last <= kept_from:
                return 0
            went = last - kept_from
            detail = {"through": last, "records": went}
            await record(connection, AuditEvent(action="prune", kind=KIND, detail=detail))
            await self._move_checkpoint(connection, last)
            await connection.execute(delete(audit_records).where(audit_records.c.sequence <= last))
            return went

    async def _is_due(self, before: str) -> bool:
        """Whether the oldest record is older; asked without a lock, because it seldom is."""
        oldest = select(audit_records.c.occurred_at).order_by(audit_records.c.sequence).limit(1)
        async with reading(self._engine) as connection:
            occurred_at = await connection.scalar(oldest)
        return occurred_at is not None and occurred_at < before

    async def _move_checkpoint(self, connection: AsyncConnection, last: int) -> None:
        statement = select(audit_records.c.hash).where(audit_records.c.sequence == last)
        reached: str = (await connection.execute(statement)).scalar_one()
        signature = self._signing.sign(signed_content(last, reached))
        await connection.execute(
            update(audit_checkpoint).values(sequence=last, hash=reached, signature=signature)
        )


async def _sequence_after(connection: AsyncConnection) -> int:
    sequence: int = (await connection.execute(select(audit_checkpoint.c.sequence))).scalar_one()
    return sequence


async def _last_older(connection: AsyncConnection, before: str) -> int:
    """The last record such that it and all before it are older."""
    columns = audit_records.c
    first_kept = select(func.min(columns.sequence)).where(columns.occurred_at >= before)
    sequence = await connection.scalar(first_kept)
    return await _newest(connection) if sequence is None else int(sequence) - 1


async def _newest(connection: AsyncConnection) -> int:
    sequence: int = (await connection.execute(select(audit_head.c.sequence))).scalar_one()
    return sequence
