"""What was spent: every record is added once, whoever adds it, and every process sees the sums."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.catalog.budgets import Account
from relay_gateway.storage import SpendingStore

MONTH = Account("2026-11", "policy", "p", "USD")
DAY = Account("2026-11-20", "policy", "p", "USD")


@pytest.fixture
def store(engine: AsyncEngine) -> SpendingStore:
    return SpendingStore(engine)


async def test_sums_grow_and_can_be_followed(store: SpendingStore) -> None:
    assert await store.since(0) == (0, {})
    assert await store.add({MONTH: 5, DAY: 5}, "spool-a", 10, 100)
    revision, sums = await store.since(0)
    assert sums == {MONTH: 5, DAY: 5}
    assert await store.add({MONTH: 2}, "spool-b", 3, 100)
    assert await store.since(revision) == (revision + 1, {MONTH: 7})
    assert await store.since(revision + 1) == (revision + 1, {})


async def test_r3_the_same_records_are_added_once(store: SpendingStore) -> None:
    assert await store.add({MONTH: 5}, "spool", 10, 100)
    for position in (10, 7):
        assert not await store.add({MONTH: 5}, "spool", position, 100)
    assert await store.position("spool") == 10
    assert (await store.since(0))[1] == {MONTH: 5}


async def test_many_processes_add_without_losing_anything(store: SpendingStore) -> None:
    accounts = {Account("2026-11", "tag:team", f"t{n}", "USD"): 1 for n in range(300)}
    await asyncio.gather(
        *(
            store.add(accounts, f"spool-{spool}", position, 100)
            for spool in range(4)
            for position in (1, 2, 3)
        )
    )
    _, sums = await store.since(0)
    positions = [await store.position(f"spool-{spool}") for spool in range(4)]
    assert positions == [3] * 4
    # A later position that was first makes the earlier ones repetitions.
    assert set(sums.values()) == {next(iter(sums.values()))}
    assert 4 <= next(iter(sums.values())) <= 12


async def test_a_dimension_is_listed_with_the_largest_sum_first(store: SpendingStore) -> None:
    amounts = {Account("total", "relay-key", key, "USD"): n for n, key in enumerate("abc", 1)}
    other = Account("total", "relay-key", "a", "EUR")
    await store.add({**amounts, other: 9}, "spool", 1, 100)
    assert list((await store.spent("total", "relay-key", "USD")).items()) == [
        ("c", 3),
        ("b", 2),
        ("a", 1),
    ]


async def test_old_periods_and_old_positions_go(store: SpendingStore) -> None:
    kept = [
        Account(period, "global", "", "USD") for period in ("2026-11-20", "2026-W47", "2026-11")
    ]
    gone = [
        Account(period, "global", "", "USD") for period in ("2026-11-19", "2026-W46", "2026-10")
    ]
    total = Account("total", "global", "", "USD")
    await store.add(dict.fromkeys((*kept, *gone, total), 1), "old", 1, 50)
    await store.add({total: 1}, "new", 1, 100)
    first = {len(one.period): one.period for one in kept}
    await store.prune(first, 100)
    _, sums = await store.since(0)
    assert set(sums) == {*kept, total}
    assert (await store.position("old"), await store.position("new")) == (0, 1)
