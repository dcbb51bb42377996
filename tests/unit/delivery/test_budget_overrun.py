"""By how much processes overrun a budget: what it is bounded by, counted in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.delivery import budget_ledger
from relay_gateway.delivery.budget_ledger import READ_SECONDS, BudgetLedger
from relay_gateway.delivery.delivery import Delivery
from relay_gateway.testing.virtual_time import VirtualTimeLoop

from .books import COST, POLICY, MemoryBooks, Process, costly

PROCESSES = 4
EVERY = 0.01
"""Seconds between the requests of one process."""
AMOUNT = 1000 * COST
ANSWER = 0.05
"""Seconds that the database takes."""
ANSWERS = 6
"""So many answers a sum has to wait for at most: two that others are waiting for, the one that is
under way when a record comes, its own booking, the reading that has just missed it, the next."""


class Spender:
    """A process whose callers ask all the time, and what became of it."""

    def __init__(self, books: MemoryBooks) -> None:
        self.process = Process(books)
        self.passed: list[float] = []
        self.delivery: Delivery

    @asynccontextmanager
    async def opened(self, directory: Path) -> AsyncIterator[None]:
        """The parts of a process that know what was spent."""
        self.delivery = Delivery(directory, _no_plugin, _no_plugin, lambda _name, _error: None)
        ledger = self.process.ledger
        await ledger.begin()
        await self.delivery.open([], [ledger])
        reading = asyncio.create_task(ledger.run())
        try:
            yield
        finally:
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)
            await self.delivery.aclose(5.0)

    async def ask(self) -> None:
        """Asks until the budget is used up for as long as anybody could take to hear of it."""
        loop = asyncio.get_running_loop()
        refused = 0
        while refused * EVERY < 10 * READ_SECONDS:
            await asyncio.sleep(EVERY)
            if self.process.spending.of(POLICY) >= AMOUNT:
                refused += 1
                continue
            refused = 0
            self.passed.append(loop.time())
            record = costly()
            self.process.settle(record)
            self.delivery.put(record)


def _no_plugin(name: str) -> Any:
    raise AssertionError(f"nobody asks for {name}")


async def overrun(directory: Path, offset: float) -> tuple[int, float]:
    """How many requests passed that there was no money for, and how long after it was used up the
    last of them did; processes begin ``offset`` seconds after each other."""
    books = MemoryBooks(seconds=ANSWER)
    spenders = [Spender(books) for _ in range(PROCESSES)]
    async with AsyncExitStack() as stack:
        for number, spender in enumerate(spenders):
            await stack.enter_async_context(spender.opened(directory / str(number)))
            await asyncio.sleep(offset)
        await asyncio.gather(*(spender.ask() for spender in spenders))
    passed = sorted(moment for spender in spenders for moment in spender.passed)
    assert books.sums[POLICY] == len(passed) * COST
    covered = AMOUNT // COST
    return len(passed) - covered, passed[-1] - passed[covered - 1]


@pytest.mark.parametrize("read_seconds", [READ_SECONDS / 4, READ_SECONDS, READ_SECONDS * 4])
def test_others_spend_no_longer_than_a_booking_and_a_reading_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, read_seconds: float
) -> None:
    monkeypatch.setattr(budget_ledger, "READ_SECONDS", read_seconds)
    longest = 0.0
    for number in range(5):
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            offset = read_seconds * number / 5
            requests, seconds = runner.run(overrun(tmp_path / str(number), offset))
        longest = max(longest, seconds)
        assert 0 < requests <= PROCESSES * (seconds / EVERY + 1)
    waits = BudgetLedger.batch_seconds + read_seconds
    assert read_seconds / 2 < longest <= waits + ANSWERS * ANSWER


def test_the_documented_two_seconds_are_the_waits_and_a_database_that_answers() -> None:
    assert BudgetLedger.batch_seconds + READ_SECONDS + ANSWERS * ANSWER < 2.0
