"""Sessions in the database: made, found, seen and ended."""

from __future__ import annotations

import msgspec
from sqlalchemy import ColumnElement, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.storage.audit import AuditEvent, record
from relay_gateway.storage.engine import reading, writing
from relay_gateway.storage.tables import sessions

KIND = "session"


class SessionRow(msgspec.Struct, frozen=True):
    """One session; see the table of this name."""

    token_hash: str
    username: str
    password_mark: str
    created_at: int
    seen_at: int


class SessionStore:
    """Every method raises :class:`StorageUnavailableError` when the database cannot be asked.

    Logins and logouts are recorded in the audit log by the transaction that makes them.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def begin(
        self, session: SessionRow, *, replaces: str | None, created_before: int
    ) -> None:
        """Keeps a new session, ends the one with the hash ``replaces``, and forgets all that were
        ``created_before``."""
        async with writing(self._engine) as connection:
            ended = sessions.c.created_at < created_before
            if replaces is not None:
                ended |= sessions.c.token_hash == replaces
            await connection.execute(delete(sessions).where(ended))
            await connection.execute(insert(sessions).values(**msgspec.structs.asdict(session)))
            await record(connection, AuditEvent(action="login", kind=KIND, target=session.username))

    async def find(self, token_hash: str) -> SessionRow | None:
        """The session with this hash."""
        async with reading(self._engine) as connection:
            result = await connection.execute(
                select(sessions).where(sessions.c.token_hash == token_hash)
            )
            row = result.mappings().one_or_none()
        return SessionRow(**row) if row is not None else None

    async def see(self, token_hash: str, seen_at: int) -> None:
        """Notes the last use of a session; that of an ended one is of no interest."""
        async with writing(self._engine) as connection:
            await connection.execute(
                update(sessions)
                .where(sessions.c.token_hash == token_hash, sessions.c.seen_at < seen_at)
                .values(seen_at=seen_at)
            )

    async def end(self, token_hash: str) -> None:
        """Forgets a session that nobody may use any longer."""
        async with writing(self._engine) as connection:
            await connection.execute(delete(sessions).where(sessions.c.token_hash == token_hash))

    async def log_out(self, token_hash: str, username: str) -> int:
        """Ends one session on its user's wish; how many there were."""
        return await self._log_out(sessions.c.token_hash == token_hash, username)

    async def log_out_everywhere(self, username: str | None) -> int:
        """Ends every session of a user, or without one every session; how many there were."""
        condition = sessions.c.username == username if username else sessions.c.token_hash != ""
        return await self._log_out(condition, username)

    async def _log_out(self, condition: ColumnElement[bool], username: str | None) -> int:
        async with writing(self._engine) as connection:
            result = await connection.execute(delete(sessions).where(condition))
            ended = int(result.rowcount)
            event = AuditEvent(
                action="logout", kind=KIND, target=username, detail={"sessions": ended}
            )
            await record(connection, event)
            return ended
