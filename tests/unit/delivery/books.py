"""Accounts that several processes book on, for tests of what each of them knows."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from relay_gateway.catalog.budgets import Account, Spending
from relay_gateway.delivery.budget_ledger import BudgetLedger
from relay_gateway.errors import StorageUnavailableError
from relay_gateway.plugin import UsageRecord
from relay_gateway.testing.records import usage_record

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
COST = 1000
POLICY = Account("2026-11", "policy", "p", "USD")


@dataclass
class MemoryBooks:
    """Accounts in memory, as the database keeps them for all processes."""

    sums: dict[Account, int] = field(default_factory=dict)
    changed: dict[Account, int] = field(default_factory=dict)
    at: dict[str, int] = field(default_factory=dict)
    revision: int = 0
    down: bool = False
    lost_answers: int = 0
    """So many bookings are made, and nobody is told."""
    seconds: float = 0.0
    """How long it takes to answer."""
    pruned: list[Mapping[int, str]] = field(default_factory=list)

    async def position(self, spool: str) -> int:
        await self._ask()
        return self.at.get(spool, 0)

    async def add(
        self, amounts: Mapping[Account, int], spool: str, position: int, now: int
    ) -> bool:
        await self._ask()
        if self.at.get(spool, 0) >= position:
            return False
        self.revision += 1
        self.at[spool] = position
        for account, nanos in amounts.items():
            self.sums[account] = self.sums.get(account, 0) + nanos
            self.changed[account] = self.revision
        if self.lost_answers:
            self.lost_answers -= 1
            raise StorageUnavailableError("the answer was lost")
        return True

    async def since(self, revision: int) -> tuple[int, dict[Account, int]]:
        new = [one for one, changed in self.changed.items() if changed > revision]
        found = self.revision, {one: self.sums[one] for one in new}
        # What is booked while the answer is on its way is not in it.
        await self._ask()
        return found

    async def prune(self, periods_before: Mapping[int, str], noted_before: int) -> None:
        await self._ask()
        self.pruned.append(periods_before)

    async def _ask(self) -> None:
        if self.seconds:
            await asyncio.sleep(self.seconds)
        if self.down:
            raise StorageUnavailableError("the database is gone")


@dataclass
class Process:
    """One process: what it knows, and the ledger that it books with."""

    books: MemoryBooks
    spending: Spending = field(default_factory=Spending)

    def __post_init__(self) -> None:
        self.ledger = BudgetLedger(self.books, self.spending, lambda: NOW)

    def settle(self, record: UsageRecord) -> None:
        """A request has ended."""
        self.spending.spend(record.request_id, (POLICY,), record.cost_nanos or 0)


def costly() -> UsageRecord:
    return msgspec.structs.replace(
        usage_record(),
        policy_id="p",
        cost_nanos=COST,
        currency="USD",
        started_at="2026-11-20T11:59:59.000Z",
    )
