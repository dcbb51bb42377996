"""The audit log: who changed what, in the transaction of the change, chained by hashes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType
from typing import Any

import msgspec
from sqlalchemy import ColumnElement, RowMapping, insert, select, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from relay_gateway.catalog.destination import redirections
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.errors import StorageUnavailableError
from relay_gateway.storage.engine import reading, writing
from relay_gateway.storage.masking import shown_entity
from relay_gateway.storage.rows import timestamp
from relay_gateway.storage.tables import audit_checkpoint, audit_head, audit_records

BEGINNING = "0" * 64
"""What the first record names as the hash before it."""
_BATCH = 1000
NO_REMARKS: Mapping[str, Any] = MappingProxyType({})


class Actor(msgspec.Struct, frozen=True):
    """Who acts, and how it came here. ``session`` is the hash of a session, never its token."""

    name: str = "local"
    method: str = "process"
    session: str | None = None
    address: str | None = None
    request_id: str | None = None


acting: ContextVar[Actor] = ContextVar("relay_actor", default=Actor())  # noqa: B039 - frozen
"""On whose behalf this task writes; commands and the gateway itself are ``local``."""


class AuditEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something to be recorded. ``before``, ``after`` and ``detail`` hold no credential."""

    action: str
    kind: str
    target: str | None = None
    slug: str | None = None
    revision: int | None = None
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    detail: Mapping[str, Any] | None = None


class AuditRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One record. ``hash`` covers every other field, ``previous_hash`` included."""

    sequence: int
    occurred_at: str
    action: str
    kind: str
    target: str | None
    slug: str | None
    actor: str
    method: str
    session: str | None
    address: str | None
    request_id: str | None
    revision: int | None
    before: Any
    after: Any
    detail: Any
    previous_hash: str
    hash: str


class AuditQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What to list: equal values in columns, ``occurred_at`` from ``since`` on and before
    ``until``, and older than the record ``before``."""

    limit: int = 100
    before: int | None = None
    since: str | None = None
    until: str | None = None
    equal: Mapping[str, str] = {}


class ChainReport(msgspec.Struct, frozen=True):
    """Whether the chain is whole: how many records were read, and the first thing that is wrong.
    ``pruned`` records before them were deleted in the regular way."""

    records: int
    problem: str | None = None
    pruned: int = 0


async def record_write(
    connection: AsyncConnection,
    *,
    action: str,
    kind: str,
    before: EntityRow | None,
    after: EntityRow | None,
    revision: int,
) -> None:
    """Records a catalog write in its own transaction, with credentials masked.

    Raises :class:`StorageUnavailableError` when it cannot be recorded; the write must then not be
    made.
    """
    await record(connection, write_event(action, kind, before, after, revision))


def write_event(
    action: str,
    kind: str,
    before: EntityRow | None,
    after: EntityRow | None,
    revision: int,
    remarks: Mapping[str, Any] = NO_REMARKS,
) -> AuditEvent:
    """What is recorded of a catalog write; ``remarks`` go into its detail."""
    row = after or before
    detail = dict(remarks)
    if before is not None and after is not None:
        if before.sealed != after.sealed:
            detail["secretChanged"] = True
        if redirected := redirections(kind, before.spec, after.spec):
            detail["credentialsRedirectedBy"] = list(redirected)
    return AuditEvent(
        action=action,
        kind=kind,
        target=row.id if row else None,
        slug=row.slug if row else None,
        revision=revision,
        before=shown_entity(before) if before else None,
        after=shown_entity(after) if after else None,
        detail=detail or None,
    )


async def record(connection: AsyncConnection, *events: AuditEvent) -> None:
    """Appends ``events`` in the transaction of ``connection``, which must be one that writes.

    The row of the chain's head is locked until the transaction ends, so that there is one order.
    Raises :class:`StorageUnavailableError` when they cannot be written.
    """
    with _audit_failures():
        head = await connection.execute(
            update(audit_head)
            .values(sequence=audit_head.c.sequence + len(events))
            .returning(audit_head.c.sequence, audit_head.c.hash)
        )
        last, previous = head.one()
        rows = []
        for sequence, event in enumerate(events, start=last - len(events) + 1):
            rows.append(_row(sequence, event, acting.get(), previous))
            previous = rows[-1]["hash"]
        if rows:
            await connection.execute(insert(audit_records), rows)
            await connection.execute(update(audit_head).values(hash=previous))


def _unknown(_content: bytes, _signature: str) -> bool:
    return False


class AuditLog:
    """Reads and verifies the log, and records what is not part of another write.

    Every method raises :class:`StorageUnavailableError` when the database cannot be asked.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def record(self, event: AuditEvent) -> None:
        """Appends one event in a transaction of its own."""
        async with writing(self._engine) as connection:
            await record(connection, event)

    async def page(self, query: AuditQuery) -> list[AuditRecord]:
        """The newest records that match, newest first."""
        statement = select(audit_records).where(*_conditions(query))
        statement = statement.order_by(audit_records.c.sequence.desc()).limit(query.limit)
        async with reading(self._engine) as connection:
            rows = await connection.execute(statement)
            return [_to_record(row) for row in rows.mappings()]

    async def verify(self, is_signed: Callable[[bytes, str], bool] = _unknown) -> ChainReport:
        """Reads the whole chain and says whether a record was changed, added or taken away.

        ``is_signed`` tells whether a signature of the checkpoint is a gateway's own; without it a
        log that was pruned cannot be verified.
        """
        async with reading(self._engine) as connection:
            head = (await connection.execute(select(audit_head))).mappings().one()
            start = (await connection.execute(select(audit_checkpoint))).mappings().one()
            pruned, previous = int(start["sequence"]), start["hash"]
            count = pruned
            problem = _checkpoint_problem(start, is_signed)
            if problem is not None:
                return ChainReport(0, problem, pruned)
            async for row in _all_rows(connection):
                count += 1
                problem = _problem(row, count, previous)
                if problem is not None:
                    return ChainReport(count - pruned, problem, pruned)
                previous = row["hash"]
        if (count, previous) != (head["sequence"], head["hash"]):
            problem = f"the newest records are gone: {head['sequence']} were made"
        return ChainReport(count - pruned, problem, pruned)


def signed_content(sequence: int, reached: str) -> bytes:
    """What is signed of a checkpoint at the record ``sequence`` with the hash ``reached``."""
    return f"{sequence} {reached}".encode()


def _checkpoint_problem(
    checkpoint: RowMapping, is_signed: Callable[[bytes, str], bool]
) -> str | None:
    sequence, reached = checkpoint["sequence"], checkpoint["hash"]
    if (sequence, reached) == (0, BEGINNING):
        return None
    if is_signed(signed_content(sequence, reached), checkpoint["signature"] or ""):
        return None
    return f"the records up to {sequence} were deleted by somebody without the master key"


def _problem(row: RowMapping, expected: int, previous: str) -> str | None:
    sequence = row["sequence"]
    if sequence != expected:
        return f"record {expected} is missing; the next one is {sequence}"
    if row["previous_hash"] != previous:
        return f"record {sequence} does not follow the one before it"
    if row["hash"] != _hash(dict(row)):
        return f"record {sequence} was changed after it was made"
    return None


async def _all_rows(connection: AsyncConnection) -> AsyncIterator[RowMapping]:
    last = 0
    while True:
        statement = select(audit_records).where(audit_records.c.sequence > last)
        statement = statement.order_by(audit_records.c.sequence).limit(_BATCH)
        rows: Sequence[RowMapping] = (await connection.execute(statement)).mappings().all()
        for row in rows:
            yield row
        if len(rows) < _BATCH:
            return
        last = rows[-1]["sequence"]


def _row(sequence: int, event: AuditEvent, actor: Actor, previous: str) -> dict[str, Any]:
    row: dict[str, Any] = {
        "sequence": sequence,
        "occurred_at": timestamp(),
        "action": event.action,
        "kind": event.kind,
        "target": event.target,
        "slug": event.slug,
        "actor": actor.name,
        "method": actor.method,
        "session": actor.session,
        "address": actor.address,
        "request_id": actor.request_id,
        "revision": event.revision,
        "before": _document(event.before),
        "after": _document(event.after),
        "detail": _document(event.detail),
        "previous_hash": previous,
    }
    return row | {"hash": _hash(row)}


def _hash(row: Mapping[str, Any]) -> str:
    covered = {name: value for name, value in row.items() if name != "hash"}
    return hashlib.sha256(_canonical(covered).encode()).hexdigest()


def _document(value: Mapping[str, Any] | None) -> str | None:
    return None if value is None else _canonical(value)


def _canonical(value: Mapping[str, Any]) -> str:
    """JSON in one spelling; ASCII, so that no database can change the spelling of a character."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _to_record(row: RowMapping) -> AuditRecord:
    fields = dict(row)
    for name in ("before", "after", "detail"):
        if fields[name] is not None:
            fields[name] = json.loads(fields[name])
    return AuditRecord(**fields)


def _conditions(query: AuditQuery) -> Iterator[ColumnElement[bool]]:
    columns = audit_records.c
    if query.before is not None:
        yield columns.sequence < query.before
    if query.since is not None:
        yield columns.occurred_at >= query.since
    if query.until is not None:
        yield columns.occurred_at < query.until
    for name, value in query.equal.items():
        yield columns[name] == value


@contextmanager
def _audit_failures() -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        raise StorageUnavailableError(
            "the audit record cannot be written, so nothing was changed; "
            "see that the gateway's database user may insert into audit_records"
        ) from error
