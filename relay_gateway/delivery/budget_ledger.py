"""Books what requests cost on the accounts of those who spent it, each record exactly once.

Every process books what it has settled itself, and what a killed one has left in its spool; all of
them read what was booked, once a second.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Protocol

from relay_gateway.catalog.budgets import Account, Spending, period_of, periods_of, spenders
from relay_gateway.errors import RelayError
from relay_gateway.plugin.usage import UsageRecord

READ_SECONDS = 1.0
PRUNE_SECONDS = 86_400.0
KEEP_DAYS = {"day": 62, "week": 190, "month": 800}
"""How long periods are kept after they have ended, for whoever wants to look back."""
FORGET_SPOOL_DAYS = 400

_log = logging.getLogger(__name__)


class Books(Protocol):
    """Where accounts are kept."""

    async def position(self, spool: str) -> int:
        """Up to which record of a spool everything was booked."""

    async def add(
        self, amounts: Mapping[Account, int], spool: str, position: int, now: int
    ) -> bool:
        """Books what the records of a spool up to ``position`` cost, once."""

    async def since(self, revision: int) -> tuple[int, dict[Account, int]]:
        """The newest revision, and what has changed after another one."""

    async def prune(self, periods_before: Mapping[int, str], noted_before: int) -> None:
        """Lets go of what is old."""


class BudgetLedger:
    """Takes every usage record; keeps ``spending`` up to date while budgets are ``wanted``. ``now``
    gives the time in UTC."""

    name = "budgets"
    batch_seconds = 0.5
    """Every booking is a transaction, which those who write the catalog may have to wait for."""

    def __init__(
        self,
        books: Books,
        spending: Spending,
        now: Callable[[], datetime],
        wanted: Callable[[], bool] = lambda: True,
    ) -> None:
        self._books = books
        self._spending = spending
        self._now = now
        self._wanted = wanted
        self._revision = 0
        # What was booked must be in the sums before they are read anew, and not twice.
        self._one_at_a_time = asyncio.Lock()
        self.trouble = ""
        """Why budgets are judged by what this process knows alone, while they are."""

    async def positions(self, spool: str) -> int:
        """Up to which record of a spool everything was booked."""
        return await self._books.position(spool)

    async def take(self, records: Sequence[UsageRecord], spool: str, position: int) -> None:
        """Books a batch."""
        amounts = booked_for(records)
        if not amounts:
            return  # what costs nothing may be looked at twice
        async with self._one_at_a_time:
            now = self._now()
            added = await self._books.add(amounts, spool, position, int(now.timestamp()))
            ids = [record.request_id for record in records]
            self._spending.booked(ids, amounts if added else {})

    async def begin(self) -> None:
        """Reads what was booked before this process serves its first request: a budget that is used
        up stays so over a restart. Where the database cannot be asked, :meth:`run` asks it
        again."""
        await self._follow(prune=False)

    async def run(self) -> None:
        """Reads what all processes have booked, for as long as it is not cancelled."""
        loop = asyncio.get_running_loop()
        prune_at = loop.time() + 60.0
        while True:
            prune = loop.time() >= prune_at
            if await self._follow(prune=prune) and prune:
                prune_at = loop.time() + PRUNE_SECONDS
            await asyncio.sleep(READ_SECONDS)

    async def read(self) -> None:
        """Takes over what was booked since the last time."""
        async with self._one_at_a_time:
            self._revision, sums = await self._books.since(self._revision)
            self._spending.put(sums, self._now())

    async def _follow(self, *, prune: bool) -> bool:
        """Whether the database could be asked."""
        try:
            if self._wanted():
                await self.read()
            if prune:
                await self._prune()
        except RelayError as error:
            if not self.trouble:
                _log.warning("what all instances have spent cannot be read: %s", error)
            self.trouble = str(error)
            return False
        self.trouble = ""
        return True

    async def _prune(self) -> None:
        now = self._now()
        before = {
            len(name): name
            for window, days in KEEP_DAYS.items()
            if (name := period_of(window, now - timedelta(days=days)))  # type: ignore[arg-type]
        }
        forgotten = now - timedelta(days=FORGET_SPOOL_DAYS)
        await self._books.prune(before, int(forgotten.timestamp()))


def booked_for(records: Sequence[UsageRecord]) -> dict[Account, int]:
    """What records have cost, on every account that they are booked on."""
    # Most records of a batch differ in nothing that matters here.
    alike: dict[tuple[Any, ...], int] = {}
    for record in records:
        if record.cost_nanos:
            key = (
                record.relay_key_id,
                record.policy_id,
                record.model_id,
                tuple(record.tags.items()),
                record.currency,
                record.started_at[:10],
            )
            alike[key] = alike.get(key, 0) + record.cost_nanos
    amounts: dict[Account, int] = {}
    for (relay_key, policy, model, tags, currency, day), nanos in alike.items():
        who = spenders(relay_key, policy, model, dict(tags), currency)
        for spender in who:
            for period in _periods_of_day(day):
                account = Account(period, *spender)
                amounts[account] = amounts.get(account, 0) + nanos
    return amounts


@lru_cache(maxsize=4)
def _periods_of_day(day: str) -> tuple[str, ...]:
    return periods_of(datetime.fromisoformat(day).replace(tzinfo=UTC))
