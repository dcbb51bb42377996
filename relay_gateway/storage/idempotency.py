"""Creates that can be repeated: what a create with an idempotency key made is kept for a day."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime, timedelta

import msgspec
from sqlalchemy import delete, insert, select
from sqlalchemy.ext.asyncio import AsyncConnection

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.errors import KeyReusedError
from relay_gateway.storage.rows import timestamp
from relay_gateway.storage.tables import repeated_creates

KEPT = timedelta(hours=24)


class CreateKey(msgspec.Struct, frozen=True):
    """An idempotency key and the request it came with, both as digests.

    The fingerprint is keyed by the idempotency key, which is kept nowhere: a credential in the
    request cannot be guessed from it.
    """

    digest: str
    fingerprint: str

    @classmethod
    def of(cls, key: str, kind: str, body: bytes) -> CreateKey:
        """For the create of a ``kind`` with ``body``, the request in a form that repeats have."""
        content = kind.encode() + b"\n" + body
        return cls(
            digest=hashlib.sha256(key.encode()).hexdigest(),
            fingerprint=hmac.new(key.encode(), content, hashlib.sha256).hexdigest(),
        )


async def recall(connection: AsyncConnection, key: CreateKey) -> EntityRow | None:
    """What the create with ``key`` made within the last day, as it then was and without what no
    read shows.

    Raises :class:`KeyReusedError` when that was another request.
    """
    found = await connection.execute(
        select(repeated_creates.c.fingerprint, repeated_creates.c.answer).where(
            repeated_creates.c.key_digest == key.digest,
            repeated_creates.c.created_at > _horizon(),
        )
    )
    row = found.one_or_none()
    if row is None:
        return None
    if not hmac.compare_digest(row.fingerprint, key.fingerprint):
        raise KeyReusedError
    return msgspec.json.decode(row.answer, type=EntityRow)


async def remember(connection: AsyncConnection, key: CreateKey, row: EntityRow) -> None:
    """Keeps what a create made, in the transaction that made it; forgets what is a day old."""
    shown = msgspec.structs.replace(row, sealed={})
    await connection.execute(
        delete(repeated_creates).where(repeated_creates.c.created_at <= _horizon())
    )
    await connection.execute(
        insert(repeated_creates).values(
            key_digest=key.digest,
            fingerprint=key.fingerprint,
            answer=msgspec.json.encode(shown).decode(),
            created_at=timestamp(),
        )
    )


def _horizon() -> str:
    moment = datetime.now(UTC) - KEPT
    return moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
