from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.errors import (
    BatchRefusedError,
    EntityNotFoundError,
    EntityReferencedError,
    InvalidEntityError,
    SlugTakenError,
    StorageUnavailableError,
    VersionConflictError,
)
from relay_gateway.ids import new_id
from relay_gateway.storage import (
    CatalogStore,
    EntityChange,
    InvalidCursorError,
    NewEntity,
    create_engine,
)
from relay_gateway.storage.tables import catalog_changes, entity_references, model_names


def provider(name: str = "Acme", **fields: Any) -> NewEntity:
    return NewEntity(kind="provider", display_name=name, spec={"enabled": True}, **fields)


def model(title: str, provider_id: str, **spec: Any) -> NewEntity:
    return NewEntity(kind="model", display_name=title, spec={"providerId": provider_id, **spec})


def renamed(row: EntityRow, name: str, **fields: Any) -> EntityChange:
    return EntityChange(display_name=name, spec=row.spec, **fields)


async def problems_of(store: CatalogStore, entity: NewEntity) -> list[tuple[str, str]]:
    with pytest.raises(InvalidEntityError) as caught:
        await store.create(entity)
    return [(problem.field, problem.code) for problem in caught.value.problems]


async def test_a_created_entity_reads_back_equal_by_id_and_by_slug(store: CatalogStore) -> None:
    created = await store.create(
        NewEntity(
            kind="provider",
            display_name="Acme Ünlimited",
            description="d",
            labels={"team": "a"},
            spec={"nested": {"list": [1, 2.5, None, "ü😀"]}},
            sealed={"digest": "x"},
        )
    )
    assert (created.slug, created.version) == ("acme-unlimited", 1)
    assert created.created_at == created.updated_at
    assert created.created_at.endswith("Z")
    assert await store.get("provider", created.id) == created
    assert await store.get("provider", created.id.upper()) == created
    assert await store.get("provider", "acme-unlimited") == created


async def test_what_does_not_exist_is_not_found(store: CatalogStore) -> None:
    await store.create(provider())
    for ref in ("nobody", "", "a\0b", "x" * 300, "%", new_id()):
        with pytest.raises(EntityNotFoundError):
            await store.get("provider", ref)
        with pytest.raises(EntityNotFoundError):
            await store.delete("provider", ref)


async def test_an_entity_is_not_found_under_another_kind(store: CatalogStore) -> None:
    row = await store.create(provider())
    with pytest.raises(EntityNotFoundError):
        await store.get("host", row.id)
    with pytest.raises(EntityNotFoundError):
        await store.update("host", row.id, renamed(row, "x"))


async def test_a_slug_in_the_form_of_an_id_gives_way_to_the_id(store: CatalogStore) -> None:
    first = await store.create(provider())
    second = await store.create(provider(first.id))
    assert second.slug == first.id
    assert (await store.get("provider", first.id)).id == first.id


async def test_minted_slugs_are_numbered_and_given_ones_refused(store: CatalogStore) -> None:
    slugs = [(await store.create(provider())).slug for _ in range(3)]
    assert slugs == ["acme", "acme-2", "acme-3"]
    with pytest.raises(SlugTakenError):
        await store.create(provider(slug="acme-2"))
    host = await store.create(NewEntity(kind="host", display_name="Acme", spec={}))
    assert host.slug == "acme"


async def test_long_names_still_give_distinct_labels_of_at_most_63(store: CatalogStore) -> None:
    slugs = [(await store.create(provider("x" * 200))).slug for _ in range(12)]
    assert len(set(slugs)) == 12
    assert max(map(len, slugs)) == 63


async def test_f09_concurrent_writers_get_consecutive_revisions_and_distinct_slugs(
    store: CatalogStore, engine: AsyncEngine
) -> None:
    rows = await asyncio.gather(*(store.create(provider()) for _ in range(24)))
    assert len({row.slug for row in rows}) == 24
    assert await store.revision() == 24
    async with engine.connect() as connection:
        changes = await connection.execute(
            select(catalog_changes).order_by(catalog_changes.c.revision)
        )
        recorded = changes.all()
    assert [change.revision for change in recorded] == list(range(1, 25))
    assert {change.entity_id for change in recorded} == {row.id for row in rows}


async def test_t58_one_of_two_updates_of_the_same_version_is_refused(store: CatalogStore) -> None:
    row = await store.create(provider())
    results = await asyncio.gather(
        *(store.update("provider", row.id, renamed(row, n), expected_version=1) for n in "ab"),
        return_exceptions=True,
    )
    refused = [result for result in results if isinstance(result, VersionConflictError)]
    assert [(error.expected, error.current) for error in refused] == [(1, 2)]
    assert (await store.get("provider", row.id)).version == 2


async def test_an_update_replaces_content_and_keeps_the_slug_unless_given(
    store: CatalogStore,
) -> None:
    row = await store.create(provider(description="old", labels={"a": "b"}))
    kept = await store.update("provider", row.id, renamed(row, "Other"))
    assert (kept.slug, kept.display_name, kept.description, kept.labels) == (
        "acme",
        "Other",
        "",
        {},
    )
    assert kept.created_at == row.created_at
    moved = await store.update("provider", row.id, renamed(row, "Other", slug="other"))
    assert (moved.slug, moved.version) == ("other", 3)
    await store.create(provider(slug="taken"))
    with pytest.raises(SlugTakenError):
        await store.update("provider", row.id, renamed(row, "Other", slug="taken"))


async def test_a_refused_write_leaves_nothing_behind(
    store: CatalogStore, engine: AsyncEngine
) -> None:
    row = await store.create(provider())
    revision = await store.revision()
    assert await problems_of(store, model("m", row.id, fallbacks=[new_id()]))
    with pytest.raises(VersionConflictError):
        await store.update("provider", row.id, renamed(row, "x"), expected_version=9)
    loaded = await store.load()
    assert (loaded.revision, list(loaded.rows)) == (revision, [row])
    async with engine.connect() as connection:
        assert (await connection.execute(select(model_names))).all() == []
        assert (await connection.execute(select(entity_references))).all() == []


async def test_references_to_nothing_and_to_another_kind_are_named_field_by_field(
    store: CatalogStore,
) -> None:
    vendor = await store.create(provider())
    entity = model(
        "m",
        new_id(),
        bindings=[{"hostId": vendor.id}, {"hostId": new_id(), "pricingId": None}],
        fallbacks=[new_id()],
    )
    assert await problems_of(store, entity) == [
        ("spec.providerId", "reference_not_found"),
        ("spec.bindings[0].hostId", "reference_not_found"),
        ("spec.bindings[1].hostId", "reference_not_found"),
        ("spec.fallbacks[0]", "reference_not_found"),
    ]


async def test_an_entity_cannot_refer_to_itself(store: CatalogStore) -> None:
    vendor = await store.create(provider())
    row = await store.create(model("m", vendor.id))
    spec = {**row.spec, "fallbacks": [row.id]}
    with pytest.raises(InvalidEntityError, match="not this one itself"):
        await store.update("model", row.id, EntityChange(display_name="m", spec=spec))


async def test_what_is_referenced_cannot_be_deleted_until_nobody_refers_to_it(
    store: CatalogStore,
) -> None:
    vendor = await store.create(provider())
    row = await store.create(model("m", vendor.id))
    assert [(r.kind, r.id, r.field) for r in await store.referrers("provider", "acme")] == [
        ("model", row.id, "spec.providerId")
    ]
    with pytest.raises(EntityReferencedError) as caught:
        await store.delete("provider", vendor.id)
    assert [(r.slug, r.field) for r in caught.value.referrers] == [("m", "spec.providerId")]
    assert await store.delete("model", row.id) == row
    assert await store.delete("provider", vendor.id) == vendor
    assert await store.is_empty()


async def test_references_follow_an_update(store: CatalogStore) -> None:
    first, second = await store.create(provider("a")), await store.create(provider("b"))
    row = await store.create(model("m", first.id))
    await store.update(
        "model", row.id, EntityChange(display_name="m", spec={"providerId": second.id})
    )
    assert await store.referrers("provider", first.id) == []
    await store.delete("provider", first.id)


async def test_the_database_itself_refuses_to_orphan_a_reference(
    store: CatalogStore, engine: AsyncEngine
) -> None:
    vendor = await store.create(provider())
    await store.create(model("m", vendor.id))
    with pytest.raises(Exception, match=r"(?i)foreign key"):
        async with engine.begin() as connection:
            await connection.execute(text("DELETE FROM entities WHERE kind = 'provider'"))


async def test_model_names_are_unique_over_names_and_exact_aliases(store: CatalogStore) -> None:
    vendor = await store.create(provider())
    await store.create(model("One", vendor.id, name="big", aliases=["alpha", "al*"]))
    await store.create(model("Two", vendor.id, aliases=["al*"]))
    clash = model("Three", vendor.id, name="alpha", aliases=["big", "two", "BIG", "x", "x"])
    assert sorted(await problems_of(store, clash)) == [
        ("spec.aliases[0]", "name_taken"),
        ("spec.aliases[1]", "name_taken"),
        ("spec.aliases[4]", "duplicate_name"),
        ("spec.name", "name_taken"),
    ]


async def test_a_model_may_keep_its_own_names_and_frees_those_it_drops(
    store: CatalogStore,
) -> None:
    vendor = await store.create(provider())
    row = await store.create(model("One", vendor.id, name="big", aliases=["alpha"]))
    spec = {"providerId": vendor.id, "name": "big"}
    await store.update("model", row.id, EntityChange(display_name="One", spec=spec))
    await store.create(model("Two", vendor.id, name="alpha"))
    await store.delete("model", row.id)
    await store.create(model("Three", vendor.id, name="big"))


async def test_pages_visit_every_entity_once_also_when_some_are_added_between(
    store: CatalogStore,
) -> None:
    created = [(await store.create(provider())).id for _ in range(7)]
    await store.create(NewEntity(kind="host", display_name="h", spec={}))
    seen: list[str] = []
    cursor = None
    for _ in range(4):
        page = await store.page("provider", limit=2, cursor=cursor)
        seen += [row.id for row in page.items]
        cursor = page.next_cursor
        if cursor is None:
            break
        await store.delete("provider", seen[0]) if len(seen) == 2 else None
    assert seen == created
    assert cursor is None
    assert (await store.page("provider", limit=6)).next_cursor is None
    assert (await store.page("provider", limit=100)).total == 6


async def test_a_foreign_cursor_is_refused(store: CatalogStore) -> None:
    for cursor in ("", "x", "ä", "AAAA", "!" * 22):
        with pytest.raises(InvalidCursorError):
            await store.page("provider", limit=1, cursor=cursor)


async def test_several_entities_are_written_at_one_revision_or_not_at_all(
    store: CatalogStore,
) -> None:
    vendor = provider()
    rows = await store.write_all([vendor, model("m", vendor.id)])
    assert [row.slug for row in rows] == ["acme", "m"]
    assert await store.revision() == 1
    with pytest.raises(BatchRefusedError):
        await store.write_all([provider("b"), model("n", new_id())])
    assert len((await store.load()).rows) == 2


async def test_two_first_starts_at_once_seed_once(store: CatalogStore) -> None:
    results = await asyncio.gather(
        *(store.write_all([provider()], only_when_empty=True) for _ in range(4))
    )
    assert sorted(map(len, results)) == [0, 0, 0, 1]
    assert await store.revision() == 1
    assert (await store.page("provider", limit=10)).total == 1


async def test_load_is_one_consistent_state_while_others_write(store: CatalogStore) -> None:
    async def write() -> None:
        for _ in range(20):
            await store.create(provider())

    async def read() -> None:
        for _ in range(20):
            loaded = await store.load()
            assert loaded.revision == len(loaded.rows)

    await asyncio.gather(write(), read(), read())


async def test_t11_the_text_of_a_database_error_has_no_values(store: CatalogStore) -> None:
    entity = provider(sealed={"digest": "canary-7f3a"})
    await store.create(entity)
    with pytest.raises(Exception, match=r"(?i)unique") as caught:
        await store.create(entity)
    assert "canary-7f3a" not in str(caught.value)


async def test_a_database_without_tables_is_unavailable_with_the_reason(database_url: str) -> None:
    engine = create_engine(database_url)
    try:
        with pytest.raises(StorageUnavailableError):
            await CatalogStore(engine).revision()
    finally:
        await engine.dispose()


async def test_t72_a_cancelled_write_leaves_no_lock_and_no_half(store: CatalogStore) -> None:
    for delay in range(12):
        task = asyncio.create_task(store.create(provider("Cancelled")))
        for _ in range(delay):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await store.create(provider("Last"))
    loaded = await store.load()
    assert loaded.revision == len(loaded.rows)
