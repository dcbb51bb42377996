"""Dry runs, creates that are repeated, and what a write records beside the entity."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from sqlalchemy import func, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.errors import (
    EntityReferencedError,
    InvalidEntityError,
    KeyReusedError,
    SlugTakenError,
    VersionConflictError,
)
from relay_gateway.ids import new_id
from relay_gateway.storage import AuditLog, CatalogStore, CreateKey, EntityChange, NewEntity
from relay_gateway.storage.tables import (
    audit_records,
    catalog_changes,
    entities,
    entity_references,
    model_names,
    repeated_creates,
)
from relay_gateway.testing.counters import count_together

KEPT = (audit_records, catalog_changes, entities, entity_references, model_names, repeated_creates)


def provider(name: str = "Acme", **fields: Any) -> NewEntity:
    return NewEntity(kind="provider", display_name=name, spec={}, **fields)


async def counts(engine: AsyncEngine) -> list[int]:
    async with engine.connect() as connection:
        queries = [select(func.count()).select_from(table) for table in KEPT]
        return [int(await connection.scalar(query) or 0) for query in queries]


async def test_a_dry_run_answers_what_would_be_and_leaves_nothing(
    store: CatalogStore, engine: AsyncEngine
) -> None:
    vendor = await store.create(provider())
    before = await counts(engine)
    model = NewEntity(kind="model", display_name="M", spec={"providerId": vendor.id})
    would_be = await store.create(model, dry_run=True)
    assert (would_be.slug, would_be.version) == ("m", 1)
    change = EntityChange(display_name="New", spec={})
    updated = await store.update("provider", vendor.id, change, dry_run=True)
    assert (updated.display_name, updated.version) == ("New", 2)
    assert await store.delete("provider", vendor.id, dry_run=True) == vendor
    assert await store.get("provider", vendor.id) == vendor
    assert (await counts(engine), await store.revision()) == (before, 1)
    assert (await store.create(provider("B"))).version == 1
    assert await store.revision() == 2


async def test_a_dry_run_is_refused_as_the_write_would_be(store: CatalogStore) -> None:
    vendor = await store.create(provider())
    model = NewEntity(kind="model", display_name="M", spec={"providerId": new_id()})
    with pytest.raises(InvalidEntityError):
        await store.create(model, dry_run=True)
    with pytest.raises(SlugTakenError):
        await store.create(provider(slug="acme"), dry_run=True)
    with pytest.raises(VersionConflictError):
        await store.delete("provider", vendor.id, expected_version=2, dry_run=True)
    await store.create(NewEntity(kind="model", display_name="M", spec={"providerId": vendor.id}))
    with pytest.raises(EntityReferencedError):
        await store.delete("provider", vendor.id, dry_run=True)


async def test_t57_a_repeated_create_answers_what_the_first_made(
    store: CatalogStore, engine: AsyncEngine
) -> None:
    key = CreateKey.of("k", "provider", b"body")
    assert await store.recall(key) is None
    first, made = await store.create_once(provider(sealed={"digest": "d"}), key)
    assert made
    shown = msgspec.structs.replace(first, sealed={})
    assert await store.create_once(provider(), key) == (shown, False)
    await store.delete("provider", first.id)
    assert await store.recall(key) == shown
    assert (await store.page("provider", limit=1)).total == 0
    assert await store.revision() == 2


async def test_t57_of_creates_at_once_with_one_key_one_is_made(store: CatalogStore) -> None:
    key = CreateKey.of("k", "provider", b"body")
    results = await asyncio.gather(*(store.create_once(provider(), key) for _ in range(6)))
    assert sorted(made for _, made in results) == [False] * 5 + [True]
    assert len({row.id for row, _ in results}) == 1


async def test_t57_a_key_with_another_request_is_refused(store: CatalogStore) -> None:
    await store.create_once(provider(), CreateKey.of("k", "provider", b"body"))
    for other in (CreateKey.of("k", "provider", b"other"), CreateKey.of("k", "host", b"body")):
        with pytest.raises(KeyReusedError):
            await store.recall(other)
        with pytest.raises(KeyReusedError):
            await store.create_once(provider(), other)
    assert await store.revision() == 1


async def test_t57_a_failed_create_keeps_no_key(store: CatalogStore, engine: AsyncEngine) -> None:
    key = CreateKey.of("k", "provider", b"body")
    await store.create(provider())
    with pytest.raises(SlugTakenError):
        await store.create_once(provider(slug="acme"), key)
    assert (await store.create_once(provider(), key))[1]


async def test_t57_keys_are_forgotten_after_a_day(store: CatalogStore, engine: AsyncEngine) -> None:
    key = CreateKey.of("k", "provider", b"body")
    await store.create_once(provider(), key)
    async with engine.begin() as connection:
        await connection.execute(update(repeated_creates).values(created_at="2020-01-01T00:00:00Z"))
    assert await store.recall(key) is None
    assert (await store.create_once(provider(), key))[1]
    assert (await counts(engine))[-1] == 1


async def test_t57_neither_key_nor_sealed_parts_are_kept(
    store: CatalogStore, engine: AsyncEngine
) -> None:
    key = CreateKey.of("canary-key", "provider", b"canary-body")
    await store.create_once(provider(sealed={"digest": "canary-sealed"}), key)
    async with engine.connect() as connection:
        kept = (await connection.execute(select(repeated_creates))).one()
    assert "canary" not in str(kept)


async def test_t59_every_write_is_recorded_in_its_own_transaction(
    store: CatalogStore, engine: AsyncEngine
) -> None:
    row = await store.create(provider())
    await store.update("provider", row.id, EntityChange(display_name="New", spec={}))
    await store.delete("provider", row.id)
    columns = audit_records.c
    async with engine.connect() as connection:
        query = select(columns.action, columns.kind, columns.target, columns.revision)
        records = (await connection.execute(query.order_by(columns.sequence))).all()
    assert [tuple(record) for record in records] == [
        ("create", "provider", row.id, 1),
        ("update", "provider", row.id, 2),
        ("delete", "provider", row.id, 3),
    ]


async def test_what_is_wrong_is_found_in_a_spec_that_is_wrong_in_other_ways_too(
    store: CatalogStore,
) -> None:
    vendor = await store.create(provider())
    taken = NewEntity(
        kind="model", display_name="M", spec={"providerId": vendor.id, "aliases": ["x"]}
    )
    await store.create(taken)
    spec: dict[str, Any] = {
        "providerId": vendor.id.upper(),
        "name": 5,
        "aliases": ["x", None, {"a": "b"}, "y", "y"],
        "bindings": [None, 7, {"hostId": new_id()}, {"hostId": [new_id()]}],
        "fallbacks": None,
        "deprecated": "no",
    }
    problems = await store.problems("model", spec, slug="m")
    assert {(problem.field, problem.code) for problem in problems} == {
        ("spec.aliases[0]", "name_taken"),
        ("spec.aliases[4]", "duplicate_name"),
        ("spec.bindings[2].hostId", "reference_not_found"),
        ("spec.name", "name_taken"),
        ("metadata.slug", "slug_taken"),
    }
    minted = await store.problems("model", {"providerId": vendor.id}, display_name="M")
    assert minted == []


async def test_more_references_than_one_statement_takes_are_all_checked(
    store: CatalogStore,
) -> None:
    vendor = await store.create(provider())
    spec = {
        "providerId": vendor.id,
        "fallbacks": [new_id() for _ in range(34_000)],
        "aliases": [f"a{n}" for n in range(34_000)],
    }
    problems = await store.problems("model", spec, slug="m")
    assert len(problems) == 34_000


async def test_f09_t58_sixteen_writers_lose_no_update_and_commit_in_order(
    store: CatalogStore, engine: AsyncEngine
) -> None:
    log = AuditLog(engine)
    counted = await count_together([store], log, writers=16, writes=5, counters=4)
    assert counted.total == 80
    assert counted.conflicts
    assert list(counted.revisions) == list(range(2, 82))
