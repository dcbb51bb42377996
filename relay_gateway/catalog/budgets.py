"""Budgets: how much money a relay key, a policy, a model, a tag or everybody may spend in a time.

Sums of all processes come from the database, about once a second; what this process has spent since
is added to them, and so is what it has under way, by its estimate. A budget can therefore be
overrun by what other processes spend until it is booked and read, which takes less than two seconds
where the database answers within 50 ms, by what they have under way, and by estimates that were too
low.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal, NamedTuple

TOTAL = "total"
Window = Literal["day", "week", "month", "total"]


class Spender(NamedTuple):
    """One whose spending is summed up: ``dimension`` is ``relay-key``, ``policy``, ``model``,
    ``tag:NAME`` or ``global``."""

    dimension: str
    value: str
    currency: str


class Account(NamedTuple):
    """A spender in one period; the fields of its row in the database, in their order."""

    period: str
    dimension: str
    value: str
    currency: str


def period_of(window: Window, moment: datetime) -> str:
    """The name of the period that ``moment`` (UTC) lies in: ``2026-11-20``, ``2026-W47``,
    ``2026-11`` or ``total``."""
    if window == "day":
        return moment.strftime("%Y-%m-%d")
    if window == "week":
        year, week, _ = moment.isocalendar()
        return f"{year:04d}-W{week:02d}"
    return moment.strftime("%Y-%m") if window == "month" else TOTAL


def end_of(window: Window, moment: datetime) -> datetime | None:
    """When the period that ``moment`` lies in ends; ``None`` for one that never does."""
    day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    if window == "day":
        return day + timedelta(days=1)
    if window == "week":
        return day + timedelta(days=7 - day.weekday())
    if window == "month":
        return (day.replace(day=1) + timedelta(days=32)).replace(day=1)
    return None


def spenders(
    relay_key: str | None,
    policy: str | None,
    model: str | None,
    tags: Mapping[str, str],
    currency: str,
) -> Iterator[Spender]:
    """Everybody on whose account a request is."""
    yield Spender("global", "", currency)
    for dimension, value in (("relay-key", relay_key), ("policy", policy), ("model", model)):
        if value:
            yield Spender(dimension, value, currency)
    for name, value in tags.items():
        yield Spender(f"tag:{name}", value, currency)


class Spending:
    """What was spent, as far as this process knows. Only periods that go on are kept."""

    def __init__(self) -> None:
        self._sums: dict[Account, int] = {}
        self._own: dict[Account, int] = {}
        self._unbooked: dict[str, tuple[Sequence[Account], int]] = {}
        self._held: dict[Spender, int] = {}

    def put(self, sums: Mapping[Account, int], now: datetime) -> None:
        """Takes new sums of all processes, and forgets those of periods that are over."""
        self._sums.update(sums)
        current = frozenset(periods_of(now))
        if any(account.period not in current for account in self._sums):
            self._sums = {one: nanos for one, nanos in self._sums.items() if one.period in current}

    def spend(self, request_id: str, accounts: Sequence[Account], nanos: int) -> None:
        """Counts what a request of this process has cost, until it is booked."""
        self._unbooked[request_id] = (accounts, nanos)
        for account in accounts:
            self._own[account] = self._own.get(account, 0) + nanos

    def booked(self, request_ids: Iterable[str], amounts: Mapping[Account, int]) -> None:
        """Requests are in the sums of all processes from now on, with these amounts."""
        for account, nanos in amounts.items():
            self._sums[account] = self._sums.get(account, 0) + nanos
        for request_id in request_ids if self._unbooked else ():
            for account in self._take(request_id):
                if not self._own[account]:
                    del self._own[account]

    def hold(self, who: Sequence[Spender], nanos: int) -> None:
        """Counts ``nanos`` as under way; a negative figure takes them out again."""
        for spender in who:
            held = self._held.get(spender, 0) + nanos
            if held > 0:
                self._held[spender] = held
            else:
                self._held.pop(spender, None)

    def of(self, account: Account) -> int:
        """What was spent on an account, and is under way."""
        spender = Spender(account.dimension, account.value, account.currency)
        spent = self._sums.get(account, 0) + self._own.get(account, 0)
        return spent + self._held.get(spender, 0)

    def _take(self, request_id: str) -> Sequence[Account]:
        accounts, nanos = self._unbooked.pop(request_id, ((), 0))
        for account in accounts:
            self._own[account] -= nanos
        return accounts


def periods_of(moment: datetime) -> tuple[str, ...]:
    """The periods that ``moment`` lies in."""
    return tuple(period_of(window, moment) for window in ("day", "week", "month", "total"))


def utc(nanoseconds: int) -> datetime:
    """The time of a number of nanoseconds since the epoch."""
    return datetime.fromtimestamp(math.floor(nanoseconds / 1e9), UTC)
