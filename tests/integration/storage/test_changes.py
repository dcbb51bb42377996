"""What followers read: everything, or what changed since a revision."""

from __future__ import annotations

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.storage import CatalogStore, EntityChange, NewEntity, create_engine
from relay_gateway.storage.changes import CatalogChanges


@pytest.fixture
def changes(engine: AsyncEngine) -> CatalogChanges:
    return CatalogChanges(engine)


def provider(name: str) -> NewEntity:
    return NewEntity(kind="provider", display_name=name, spec={}, labels={"team": "ä"})


async def test_everything_is_what_the_store_has(
    store: CatalogStore, changes: CatalogChanges
) -> None:
    await store.write_all([provider(f"p{index}") for index in range(120)])
    assert await changes.load() == await store.load()
    assert await changes.revision() == 1


async def test_changes_are_the_rows_as_they_are_now_and_the_ids_of_those_that_are_gone(
    store: CatalogStore, changes: CatalogChanges
) -> None:
    kept, edited, deleted = [await store.create(provider(name)) for name in ("a", "b", "c")]
    change = EntityChange(display_name="B", spec={"homepageUrl": "http://b.test"})
    await store.update("provider", edited.id, change)
    last = await store.update("provider", edited.id, change)
    await store.delete("provider", deleted.id)
    brief = await store.create(provider("d"))
    await store.delete("provider", brief.id)
    delta = await changes.since(3)
    assert delta is not None
    assert delta.revision == 8
    assert delta.changed == [last]
    assert delta.deleted == {deleted.id, brief.id}
    whole = await changes.since(0)
    assert whole is not None
    assert {row.id for row in whole.changed} == {kept.id, edited.id}


async def test_nothing_new_is_an_empty_change(store: CatalogStore, changes: CatalogChanges) -> None:
    await store.create(provider("a"))
    delta = await changes.since(1)
    assert delta is not None
    assert (delta.revision, delta.changed, delta.deleted) == (1, [], frozenset())


async def test_a_database_that_has_not_come_so_far_is_another_one(changes: CatalogChanges) -> None:
    assert await changes.since(1) is None


async def test_f11_a_document_that_is_none_makes_one_bad_row(
    store: CatalogStore, changes: CatalogChanges, engine: AsyncEngine
) -> None:
    await store.create(provider("a"))
    await store.create(provider("b"))
    async with engine.begin() as connection:
        await connection.execute(text("UPDATE entities SET spec = '[7]' WHERE slug = 'a'"))
    bad, good = (await changes.load()).rows
    assert bad.spec == {"unreadable": None}
    assert good.spec == {}


async def test_a_database_that_is_away_is_said_to_be() -> None:
    engine = create_engine("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(StorageUnavailableError):
        await CatalogChanges(engine).since(0)
    await engine.dispose()
