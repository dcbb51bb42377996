"""Booking what requests cost: once each, whatever happens to the database in between."""

from __future__ import annotations

import asyncio
import logging

import msgspec
import pytest

from relay_gateway.delivery import budget_ledger
from relay_gateway.errors import StorageUnavailableError
from relay_gateway.testing.instances import until
from relay_gateway.testing.spools import SpoolWorld

from .books import COST, POLICY, MemoryBooks, Process, costly


@pytest.fixture
def books() -> MemoryBooks:
    return MemoryBooks()


@pytest.fixture
def process(books: MemoryBooks) -> Process:
    return Process(books)


async def test_a_record_counts_before_while_and_after_it_is_booked(process: Process) -> None:
    records = [costly() for _ in range(5)]
    for record in records:
        process.settle(record)
    assert process.spending.of(POLICY) == 5 * COST
    await process.ledger.take(records, "spool", 5)
    assert process.spending.of(POLICY) == 5 * COST
    await process.ledger.read()
    assert process.spending.of(POLICY) == 5 * COST == process.books.sums[POLICY]


async def test_a_booking_whose_answer_was_lost_is_not_made_twice(process: Process) -> None:
    records = [costly() for _ in range(3)]
    for record in records:
        process.settle(record)
    process.books.lost_answers = 1
    with pytest.raises(StorageUnavailableError):
        await process.ledger.take(records, "spool", 3)
    await process.ledger.take(records, "spool", 3)
    await process.ledger.read()
    assert process.books.sums[POLICY] == 3 * COST
    assert process.spending.of(POLICY) == 3 * COST


async def test_other_processes_learn_of_it_with_their_next_look(books: MemoryBooks) -> None:
    one, other = Process(books), Process(books)
    await one.ledger.take([costly()], "a", 1)
    await other.ledger.take([costly()], "b", 1)
    assert other.spending.of(POLICY) == COST
    await other.ledger.read()
    await one.ledger.read()
    assert one.spending.of(POLICY) == other.spending.of(POLICY) == 2 * COST


async def test_what_a_process_spends_while_it_reads_is_not_lost(process: Process) -> None:
    first, second = costly(), costly()
    process.settle(first)
    await process.ledger.take([first], "spool", 1)
    process.settle(second)
    await process.ledger.read()
    assert process.spending.of(POLICY) == 2 * COST


async def test_records_that_cost_nothing_are_not_worth_a_transaction(process: Process) -> None:
    free = msgspec.structs.replace(costly(), cost_nanos=0)
    unpriced = msgspec.structs.replace(costly(), cost_nanos=None, currency=None)
    await process.ledger.take([free, unpriced], "spool", 2)
    assert process.books.revision == 0


async def test_without_the_database_it_goes_on_with_what_it_knows_and_recovers(
    books: MemoryBooks, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(budget_ledger, "READ_SECONDS", 0.005)
    one, other = Process(books), Process(books)
    await other.ledger.take([costly()], "other", 1)
    with caplog.at_level(logging.WARNING, logger="relay_gateway.delivery.budget_ledger"):
        task = asyncio.create_task(one.ledger.run())
        await until(lambda: one.spending.of(POLICY) == COST)
        books.down = True
        await until(lambda: "the database is gone" in one.ledger.trouble)
        own = costly()
        one.settle(own)
        with pytest.raises(StorageUnavailableError):
            await one.ledger.take([own], "one", 1)
        assert one.spending.of(POLICY) == 2 * COST
        await asyncio.sleep(0.05)
        assert len(caplog.records) == 1, "it is said once"
        books.down = False
        await one.ledger.take([own], "one", 1)
        await other.ledger.take([costly()], "other", 2)
        await until(lambda: one.spending.of(POLICY) == 3 * COST)
        assert one.ledger.trouble == ""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_r3_over_kills_and_an_absent_database_every_request_is_booked_once(
    world: SpoolWorld, books: MemoryBooks
) -> None:
    first = Process(books)
    books.lost_answers = 2
    delivery = await world.open("one", consumers=[first.ledger])
    records = [costly() for _ in range(40)]
    for record in records[:10]:
        first.settle(record)
        delivery.put(record)
    await until(lambda: books.sums.get(POLICY, 0) == 10 * COST)
    books.down = True
    for record in records[10:25]:
        first.settle(record)
        delivery.put(record)
    assert first.spending.of(POLICY) == 25 * COST
    await world.kill(delivery)
    books.down = False
    second = Process(books)
    delivery = await world.open("two", consumers=[second.ledger])
    for record in records[25:]:
        second.settle(record)
        delivery.put(record)
    await until(lambda: books.sums[POLICY] >= 40 * COST)
    await world.close(delivery)
    await second.ledger.read()
    assert books.sums[POLICY] == second.spending.of(POLICY) == 40 * COST


async def test_what_was_spent_is_known_before_the_first_request(books: MemoryBooks) -> None:
    before = Process(books)
    await before.ledger.take([costly()], "spool", 1)
    restarted = Process(books)
    await restarted.ledger.begin()
    assert restarted.spending.of(POLICY) == COST


async def test_a_process_begins_without_its_database_and_says_what_it_does_not_know(
    process: Process,
) -> None:
    process.books.down = True
    await process.ledger.begin()
    assert "the database is gone" in process.ledger.trouble
