"""What followers read: everything, or what changed since a revision."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.errors import StorageUnavailableError
from relay_gateway.storage import (
    Batch,
    CatalogStore,
    EntityChange,
    EntityRemoval,
    NewEntity,
    create_engine,
)
from relay_gateway.storage.changes import PORTION, CatalogChanges


@pytest.fixture
def changes(engine: AsyncEngine) -> CatalogChanges:
    return CatalogChanges(engine)


def provider(name: str) -> NewEntity:
    return NewEntity(kind="provider", display_name=name, spec={}, labels={"team": "ä"})


async def test_everything_is_what_the_store_has(
    store: CatalogStore, changes: CatalogChanges
) -> None:
    await store.write_all([provider(f"p{index}") for index in range(120)])
    taken: list[EntityRow] = []
    delta = await changes.load(taken.extend)
    whole = await store.load()
    assert (delta.revision, taken, delta.settings) == (1, whole.rows, whole.settings)
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
    taken: list[EntityRow] = []
    delta = await changes.since(3, taken.extend)
    assert delta is not None
    assert (delta.revision, taken) == (8, [last])
    assert delta.deleted == {deleted.id, brief.id}
    taken.clear()
    assert await changes.since(0, taken.extend) is not None
    assert {row.id for row in taken} == {kept.id, edited.id}


async def test_nothing_new_is_an_empty_change(store: CatalogStore, changes: CatalogChanges) -> None:
    await store.create(provider("a"))
    taken: list[EntityRow] = []
    delta = await changes.since(1, taken.extend)
    assert delta is not None
    assert (delta.revision, taken, delta.deleted) == (1, [], frozenset())


async def test_f10_many_changes_come_in_portions(
    store: CatalogStore, changes: CatalogChanges
) -> None:
    rows = await store.write_all([provider(f"p{index}") for index in range(1200)])
    await store.write(Batch(delete=[EntityRemoval("provider", row.id) for row in rows[:700]]))
    portions: list[Sequence[EntityRow]] = []
    delta = await changes.since(0, portions.append)
    assert delta is not None
    assert len(delta.deleted) == 700
    assert sum(map(len, portions)) == 500
    assert max(map(len, portions)) <= PORTION


async def test_a_database_that_has_not_come_so_far_is_another_one(changes: CatalogChanges) -> None:
    assert await changes.since(1, list[EntityRow]().extend) is None


async def test_f11_a_document_that_is_none_makes_one_bad_row(
    store: CatalogStore, changes: CatalogChanges, engine: AsyncEngine
) -> None:
    await store.create(provider("a"))
    await store.create(provider("b"))
    async with engine.begin() as connection:
        await connection.execute(text("UPDATE entities SET spec = '[7]' WHERE slug = 'a'"))
    taken: list[EntityRow] = []
    await changes.load(taken.extend)
    bad, good = taken
    assert bad.spec == {"unreadable": None}
    assert good.spec == {}


async def test_a_database_that_is_away_is_said_to_be() -> None:
    engine = create_engine("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(StorageUnavailableError):
        await CatalogChanges(engine).since(0, list[EntityRow]().extend)
    await engine.dispose()
