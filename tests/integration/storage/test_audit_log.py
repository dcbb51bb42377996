"""Every write leaves a record in its own transaction, and no record can be changed unnoticed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.errors import StorageUnavailableError
from relay_gateway.secret import MASK
from relay_gateway.storage import AuditLog, CatalogStore, EntityChange, NewEntity
from relay_gateway.storage.audit import Actor, AuditEvent, AuditQuery, AuditRecord, acting
from relay_gateway.storage.masking import shown_entity

DROP_TRIGGERS = {
    "sqlite": ["DROP TRIGGER audit_records_no_update", "DROP TRIGGER audit_records_no_delete"],
    "postgresql": [
        "DROP TRIGGER audit_records_append_only ON audit_records",
        "DROP TRIGGER audit_records_no_delete ON audit_records",
    ],
}
REFUSE_INSERT = {
    "sqlite": "CREATE TRIGGER broken BEFORE INSERT ON audit_records "
    "BEGIN SELECT RAISE(ABORT, 'disk full'); END",
    "postgresql": "ALTER TABLE audit_records ADD CHECK (sequence < 0) NOT VALID",
}


@pytest.fixture
def log(engine: AsyncEngine) -> AuditLog:
    return AuditLog(engine)


async def run(engine: AsyncEngine, *statements: str) -> None:
    async with engine.begin() as connection:
        for statement in statements:
            await connection.execute(text(statement))


async def records(log: AuditLog, **query: Any) -> list[AuditRecord]:
    return await log.page(AuditQuery(**query))


def provider(name: str = "Acme", **fields: Any) -> NewEntity:
    return NewEntity(kind="provider", display_name=name, spec={}, **fields)


async def test_writes_are_recorded_with_who_before_and_after(
    store: CatalogStore, log: AuditLog
) -> None:
    reset = acting.set(Actor("ada", "session", "5e55", "10.0.0.1", "request-1"))
    row = await store.create(provider(sealed={"digest": "first"}))
    change = EntityChange(display_name="Acme 2", spec={}, sealed={"digest": "second"})
    await store.update("provider", row.id, change)
    acting.reset(reset)
    await store.delete("provider", row.id)
    deleted, updated, created = await records(log)
    assert [item.action for item in (created, updated, deleted)] == ["create", "update", "delete"]
    assert (created.actor, created.method, created.session) == ("ada", "session", "5e55")
    assert (created.address, created.request_id) == ("10.0.0.1", "request-1")
    assert (deleted.actor, deleted.method, deleted.address) == ("local", "process", None)
    assert [item.revision for item in (created, updated, deleted)] == [1, 2, 3]
    assert created.before is None
    assert created.after == updated.before == shown_entity(row)
    assert updated.after["displayName"] == deleted.before["displayName"] == "Acme 2"
    assert deleted.after is None
    assert updated.detail == {"secretChanged": True}
    assert "first" not in str(await records(log))
    assert (await log.verify()).problem is None


async def test_a_write_that_fails_leaves_no_record(store: CatalogStore, log: AuditLog) -> None:
    await store.create(provider(slug="acme"))
    with pytest.raises(Exception, match="slug"):
        await store.create(provider(slug="acme"))
    await store.create(provider(), dry_run=True)
    assert len(await records(log)) == 1
    assert await log.verify() == type(await log.verify())(1)


def test_credentials_in_specs_are_masked() -> None:
    spec = {
        "headers": {"Authorization": "Bearer x", "X-Api-Key": "x", "X-Team": "blue"},
        "proxyUrl": "http://user:hunter2@proxy:1",
        "adapterConfig": {"clientSecret": "x", "scopes": [{"apiToken": "x"}], "token": ""},
        "valueFrom": {"kind": "aws-secrets-manager", "secretId": "prod/key"},
        "maxOutputTokens": 5,
    }
    row = EntityRow(id="1", kind="host", slug="h", display_name="H", spec=spec, sealed={"a": "b"})
    shown = shown_entity(row)
    assert "sealed" not in shown
    assert shown["spec"] == {
        "headers": {"Authorization": MASK, "X-Api-Key": MASK, "X-Team": "blue"},
        "proxyUrl": f"http://user:{MASK}@proxy:1",
        "adapterConfig": {"clientSecret": MASK, "scopes": [{"apiToken": MASK}], "token": ""},
        "valueFrom": {"kind": "aws-secrets-manager", "secretId": "prod/key"},
        "maxOutputTokens": 5,
    }


async def test_t59_f28_a_write_whose_record_cannot_be_written_is_not_made(
    engine: AsyncEngine, store: CatalogStore, log: AuditLog
) -> None:
    row = await store.create(provider())
    await run(engine, REFUSE_INSERT[engine.dialect.name])
    for write in (
        store.create(provider("Other")),
        store.update("provider", row.id, EntityChange(display_name="Changed", spec={})),
        store.delete("provider", row.id),
        log.record(AuditEvent(action="login-failed", kind="session")),
    ):
        with pytest.raises(StorageUnavailableError, match="audit record cannot be written"):
            await write
    assert await store.get("provider", row.id) == row
    assert (await store.page("provider", limit=10)).total == 1
    assert await store.revision() == 1


@pytest.mark.parametrize(
    "statement", ["UPDATE audit_records SET actor = 'nobody'", "DELETE FROM audit_records"]
)
async def test_t59_records_cannot_be_changed_or_deleted(
    engine: AsyncEngine, store: CatalogStore, log: AuditLog, statement: str
) -> None:
    await store.create(provider())
    with pytest.raises(DBAPIError, match="append-only"):
        await run(engine, statement)
    assert len(await records(log)) == 1


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE audit_records SET actor = 'nobody' WHERE sequence = 2", "record 2 was changed"),
        ("UPDATE audit_records SET after = NULL WHERE sequence = 2", "record 2 was changed"),
        ("DELETE FROM audit_records WHERE sequence = 2", "record 2 is missing"),
        ("DELETE FROM audit_records WHERE sequence = 1", "record 1 is missing"),
        ("DELETE FROM audit_records WHERE sequence = 3", "newest records are gone"),
        ("DELETE FROM audit_records", "newest records are gone"),
        ("UPDATE audit_records SET previous_hash = hash WHERE sequence = 3", "does not follow"),
    ],
)
async def test_t59_whoever_gets_past_that_is_found_out(
    engine: AsyncEngine, store: CatalogStore, log: AuditLog, statement: str, problem: str
) -> None:
    for number in range(3):
        await store.create(provider(f"Acme {number}"))
    await run(engine, *DROP_TRIGGERS[engine.dialect.name], statement)
    assert problem in str((await log.verify()).problem)


async def test_writers_at_once_make_one_chain(store: CatalogStore, log: AuditLog) -> None:
    async def failed_login(number: int) -> None:
        await log.record(AuditEvent(action="login-failed", kind="session", target=f"u{number}"))

    await asyncio.gather(
        *(store.create(provider(f"Acme {number}")) for number in range(10)),
        *(failed_login(number) for number in range(10)),
    )
    report = await log.verify()
    assert (report.records, report.problem) == (20, None)


async def test_numbers_and_scripts_survive_the_database(store: CatalogStore, log: AuditLog) -> None:
    spec = {"a": 1.0, "b": 1e-9, "c": 10**20, "d": "Ünïted 模型 🚀\u2028", "e": [True, None]}
    await store.create(NewEntity(kind="provider", display_name="ключ", spec=spec))
    assert (await log.verify()).problem is None
    assert (await records(log))[0].after["spec"] == spec


async def test_lists_are_filtered_and_go_back_in_time(store: CatalogStore, log: AuditLog) -> None:
    rows = [await store.create(provider(f"Acme {number}")) for number in range(5)]
    assert [item.sequence for item in await records(log, limit=2)] == [5, 4]
    assert [item.sequence for item in await records(log, limit=2, before=4)] == [3, 2]
    (found,) = await records(log, equal={"target": rows[2].id, "action": "create"})
    assert found.slug == rows[2].slug
    assert await records(log, equal={"actor": "ada"}) == []
    since = await records(log, since=found.occurred_at)
    until = await records(log, until=found.occurred_at)
    assert [len(since), len(until)] == [3, 2]
