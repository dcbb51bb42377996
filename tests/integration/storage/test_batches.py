"""Writes of many entities: set-based, all or none, and recorded as writes of one are."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.errors import (
    BatchRefusedError,
    EntityNotFoundError,
    EntityReferencedError,
    InvalidEntityError,
    SlugTakenError,
    VersionConflictError,
)
from relay_gateway.ids import new_id
from relay_gateway.storage import (
    AuditLog,
    Batch,
    CatalogStore,
    EntityChange,
    EntityRemoval,
    EntityUpdate,
    NewEntity,
)
from relay_gateway.storage.rows import PORTION
from relay_gateway.storage.tables import audit_records, catalog_changes, entity_references
from relay_gateway.testing.statements import statements

MANY = 10_000
TABLES = 12
"""How many statements a portion may take, of whatever kind."""


def provider(name: str, **fields: Any) -> NewEntity:
    return NewEntity(kind="provider", display_name=name, spec={}, **fields)


def model(name: str, vendor: str, **spec: Any) -> NewEntity:
    return NewEntity(kind="model", display_name=name, spec={"providerId": vendor, **spec})


def changed(row: EntityRow, **fields: Any) -> EntityUpdate:
    content = {"display_name": row.display_name, "spec": row.spec} | fields
    return EntityUpdate(row.kind, row.id, EntityChange(**content))


def removed(row: EntityRow) -> EntityRemoval:
    return EntityRemoval(row.kind, row.id)


async def test_f10_ten_thousand_entities_take_few_statements_and_one_revision(
    store: CatalogStore, engine: AsyncEngine
) -> None:
    policy = await store.create(NewEntity(kind="policy", display_name="P", spec={}))
    spec = {"policyId": policy.id, "prefix": "sk-relay-", "revokedAt": None}
    new = [NewEntity(kind="relay key", display_name="Key", spec=spec) for _ in range(MANY)]
    with statements(engine) as asked:
        rows = await store.write_all(new)
        assert len(asked) <= TABLES * (MANY / PORTION) + 20
        assert (rows[0].slug, rows[1].slug, rows[-1].slug) == ("key", "key-2", f"key-{MANY}")
        asked.clear()
        await store.write(Batch(delete=[removed(row) for row in rows[1:]]))
        assert len(asked) <= TABLES * (MANY / PORTION) + 20
    assert await store.revision() == 3
    assert (await store.page("relay key", limit=5)).items == [rows[0]]
    report = await AuditLog(engine).verify()
    assert (report.records, report.problem) == (2 * MANY, None)


async def test_what_is_made_may_refer_to_what_is_made_in_circles(store: CatalogStore) -> None:
    vendor, first, second = provider("V"), model("A", ""), model("B", "")
    first = msgspec.structs.replace(first, spec={"providerId": vendor.id, "fallbacks": [second.id]})
    second = msgspec.structs.replace(
        second, spec={"providerId": vendor.id, "fallbacks": [first.id]}
    )
    await store.write_all([first, second, vendor])
    assert [r.slug for r in await store.referrers("provider", "v")] == ["a", "b"]
    assert [r.slug for r in await store.referrers("model", "a")] == ["b"]


async def test_makes_changes_and_deletions_are_one_write(
    store: CatalogStore, engine: AsyncEngine
) -> None:
    old, gone = await store.write_all([provider("Old"), provider("Gone")])
    user, stale = await store.write_all(
        [model("User", gone.id, aliases=["free"]), model("Stale", gone.id, aliases=["x"])]
    )
    new = provider("New", managed_by="file")
    successor = model("Next", new.id, aliases=["x"])
    successor = msgspec.structs.replace(successor, slug="stale")
    rows = await store.write(
        Batch(
            create=[new, successor],
            update=[
                changed(user, spec={"providerId": new.id}),
                changed(old, display_name="Older", managed_by="file"),
            ],
            delete=[removed(stale), removed(gone)],
        )
    )
    assert [(row.slug, row.version, row.managed_by) for row in rows] == [
        ("new", 1, "file"), ("stale", 1, "api"), ("user", 2, "api"), ("old", 2, "file"),
        ("stale", 1, "api"), ("gone", 1, "api"),
    ]  # fmt: skip
    assert await store.revision() == 3
    assert (await store.load()).rows == sorted(rows[:4], key=lambda row: row.id)
    async with engine.connect() as connection:
        targets = await connection.scalars(select(entity_references.c.target_id))
        assert set(targets) == {new.id}
        changes = catalog_changes.c
        found = await connection.execute(select(changes.action).where(changes.revision == 3))
        assert sorted(found.scalars()) == ["create", "create", *["delete"] * 2, *["update"] * 2]
        actions = await connection.scalars(
            select(audit_records.c.action).order_by(audit_records.c.sequence)
        )
        expected = ["create", "create", "update", "update", "delete", "delete"]
        assert list(actions)[-6:] == expected


async def test_everything_that_is_wrong_is_told_by_entity_and_nothing_is_written(
    store: CatalogStore,
) -> None:
    vendor, used = await store.write_all([provider("Vendor"), provider("Used")])
    taken = await store.create(model("Taken", used.id, aliases=["taken-name"]))
    missing, unknown = new_id(), new_id()
    batch = Batch(
        create=[
            bad := model("Bad", missing, aliases=["taken-name"]),
            twin := provider("Twin", slug="vendor"),
            one := model("One", vendor.id, aliases=["same"]),
            two := model("Two", vendor.id, aliases=["same"]),
            good := provider("Good"),
        ],
        update=[
            EntityUpdate("provider", unknown, EntityChange(display_name="?", spec={})),
            EntityUpdate("provider", vendor.id, EntityChange(display_name="V", spec={}), 7),
        ],
        delete=[removed(used)],
    )
    with pytest.raises(BatchRefusedError) as refused:
        await store.write(batch)
    refusals = refused.value.refusals
    assert {key: type(value) for key, value in refusals.items()} == {
        bad.id: InvalidEntityError,
        twin.id: SlugTakenError,
        two.id: InvalidEntityError,
        unknown: EntityNotFoundError,
        vendor.id: VersionConflictError,
        used.id: EntityReferencedError,
    }
    invalid = refusals[bad.id]
    assert isinstance(invalid, InvalidEntityError)
    assert [problem.code for problem in invalid.problems] == ["reference_not_found", "name_taken"]
    assert good.id not in refusals
    assert one.id not in refusals
    assert "and 1 more" in str(refused.value)
    assert (await store.load()).rows == [vendor, used, taken]
    assert await store.revision() == 2


async def test_a_slug_and_a_name_change_hands_with_the_entity_that_had_them(
    store: CatalogStore,
) -> None:
    vendor = await store.create(provider("Vendor"))
    old = await store.create(model("M", vendor.id, aliases=["alias"]))
    new = model("M", vendor.id, aliases=["alias"])
    rows = await store.write(Batch(create=[new], delete=[removed(old)]))
    assert [row.slug for row in rows] == ["m", "m"]
    assert (await store.get("model", "m")).id == new.id


async def test_of_two_that_swap_slugs_both_are_refused(store: CatalogStore) -> None:
    a, b = await store.write_all([provider("A"), provider("B")])
    with pytest.raises(BatchRefusedError) as refused:
        await store.write(Batch(update=[changed(a, slug="b"), changed(b, slug="a")]))
    assert refused.value.refusals.keys() == {a.id, b.id}


async def test_a_dry_run_of_a_batch_leaves_nothing(store: CatalogStore) -> None:
    rows = await store.write(Batch(create=[provider("A")]), dry_run=True)
    assert [row.slug for row in rows] == ["a"]
    assert await store.is_empty()
    assert await store.revision() == 0
    assert await store.write(Batch()) == []
    assert await store.revision() == 0
