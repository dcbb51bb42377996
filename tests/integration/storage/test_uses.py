"""Last uses of relay keys: merged, beside the catalog, gone with the key."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.ids import new_id
from relay_gateway.storage import CatalogStore, NewEntity, RelayKeyUses

EARLY, LATE = "2030-01-01T10:00:00Z", "2030-01-01T10:01:00Z"


@pytest.fixture
def uses(engine: AsyncEngine) -> RelayKeyUses:
    return RelayKeyUses(engine)


async def relay_key(store: CatalogStore, name: str = "App") -> str:
    policy = await store.create(NewEntity(kind="policy", display_name=name, spec={}))
    spec = {"policyId": policy.id, "prefix": "sk-relay-x"}
    sealed = {"digest": "00" * 32, "previous": []}
    key = NewEntity(kind="relay key", display_name=name, spec=spec, sealed=sealed)
    return (await store.create(key)).id


async def test_the_later_of_two_uses_stays(store: CatalogStore, uses: RelayKeyUses) -> None:
    first, second = await relay_key(store), await relay_key(store)
    await uses.merge({first: LATE, second: EARLY})
    await uses.merge({first: EARLY, second: LATE})
    assert await uses.of([first, second, new_id()]) == {first: LATE, second: LATE}
    assert await uses.of([]) == {}
    await uses.merge({})


async def test_a_use_changes_neither_the_revision_nor_the_version(
    store: CatalogStore, uses: RelayKeyUses
) -> None:
    key_id = await relay_key(store)
    before, revision = await store.get("relay key", key_id), await store.revision()
    await uses.merge({key_id: EARLY})
    assert await store.get("relay key", key_id) == before
    assert await store.revision() == revision


async def test_a_deleted_key_takes_its_use_along_and_gets_no_other(
    store: CatalogStore, uses: RelayKeyUses
) -> None:
    key_id, other = await relay_key(store), await relay_key(store)
    await uses.merge({key_id: EARLY})
    await store.delete("relay key", key_id)
    assert await uses.of([key_id]) == {}
    await uses.merge({key_id: LATE, other: LATE})
    assert await uses.of([key_id, other]) == {other: LATE}


async def test_processes_that_note_the_same_keys_at_once_do_not_hinder_each_other(
    store: CatalogStore, uses: RelayKeyUses
) -> None:
    ids = [await relay_key(store) for _ in range(5)]
    times = [f"2030-01-01T10:{minute:02}:00Z" for minute in range(8)]
    await asyncio.gather(*(uses.merge(dict.fromkeys(ids, time)) for time in times))
    assert await uses.of(ids) == dict.fromkeys(ids, times[-1])


async def test_more_keys_than_one_statement_takes(
    store: CatalogStore, uses: RelayKeyUses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay_gateway.storage.uses.BATCH", 2)
    ids = [await relay_key(store) for _ in range(5)]
    await uses.merge(dict.fromkeys(ids, EARLY))
    assert await uses.of(ids) == dict.fromkeys(ids, EARLY)


async def test_a_database_without_the_table_says_what_to_do(
    engine: AsyncEngine, store: CatalogStore, uses: RelayKeyUses
) -> None:
    key_id = await relay_key(store)
    async with engine.begin() as connection:
        await connection.execute(text("ALTER TABLE relay_key_uses RENAME TO gone"))
    with pytest.raises(StorageUnavailableError):
        await uses.merge({key_id: EARLY})
