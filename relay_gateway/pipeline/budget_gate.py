"""Whether there is money left for a request, and what it has cost when it has ended."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from typing import NamedTuple

from relay_gateway.catalog.budgets import Account, Spender, Spending, end_of, period_of, utc
from relay_gateway.catalog.snapshot import Model
from relay_gateway.catalog.specs import Budget
from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.call import Call
from relay_gateway.plugin.usage import UsageRecord

WARN_AT = (80, 100)
"""Percent of a budget at which it is said in the log."""
NEVER_ENDS = 86_400.0
"""What ``Retry-After`` says of a budget without end, which only an administrator can raise."""
MOST_SAID = 10_000

_log = logging.getLogger(__name__)


class BudgetStanding(NamedTuple):
    """A budget in words, whether there is money left, and what a request is told if there must
    be."""

    message: str
    ok: bool
    refusal: RequestRefusedError | None


class BudgetGate:
    """Refuses what has no budget left, and counts what this process spends. ``wall`` gives the time
    in nanoseconds since the epoch: budgets go by the calendar."""

    def __init__(self, spending: Spending, wall: Callable[[], int] = time.time_ns) -> None:
        self._spending = spending
        self._wall = wall
        self._said: set[tuple[Account, int, int]] = set()
        self.refusals: Counter[str] = Counter()
        """Requests that were refused, by the scope of the budget."""
        self.reached: Counter[tuple[str, int]] = Counter()
        """Budgets that a request took to one of the figures in :data:`WARN_AT`, by their scope;
        each counts once per period."""

    def admit(self, call: Call, model: Model | None, estimated: Callable[[], int]) -> None:
        """Lets a request pass whose budgets are not used up; what it is ``estimated`` to cost, in
        nano-units, is then counted as under way. Raises :class:`RequestRefusedError` (429)."""
        now = utc(self._wall())
        budgets = list(_applying(call, model))
        for budget, spender in budgets:
            spent = self._spending.of(Account(period_of(budget.window, now), *spender))
            if spent >= budget.amount_nanos and budget.action == "block":
                self.refusals[budget.scope] += 1
                raise _exceeded(budget, spender, now)
        if budgets:
            who = tuple(dict.fromkeys(spender for _, spender in budgets))
            call.budget_hold = (who, estimated())
            self._spending.hold(*call.budget_hold)

    def standing(self, call: Call, model: Model | None) -> Iterator[BudgetStanding]:
        """How the budgets stand that a request is on."""
        now = utc(self._wall())
        for budget, spender in _applying(call, model):
            spent = self._spending.of(Account(period_of(budget.window, now), *spender))
            used_up = spent >= budget.amount_nanos
            have, whole = (_money(one, budget.currency) for one in (spent, budget.amount_nanos))
            yield BudgetStanding(
                f"{have} of {whole} per {budget.window} for {_whose(spender)} are spent or under "
                "way",
                not used_up,
                _exceeded(budget, spender, now) if used_up and budget.action == "block" else None,
            )

    def release(self, call: Call, record: UsageRecord) -> None:
        """Counts what a request has cost instead of what it was estimated to."""
        if call.budget_hold is not None:
            who, nanos = call.budget_hold
            call.budget_hold = None
            self._spending.hold(who, -nanos)
        if not record.cost_nanos:
            return
        moment = utc(call.started_ns)
        accounts = {
            Account(period_of(budget.window, moment), *spender): budget
            for budget, spender in _applying(call, call.model)
            if budget.currency == record.currency
        }
        if accounts:
            self._spending.spend(record.request_id, tuple(accounts), record.cost_nanos)
            self._warn(call, accounts)

    def _warn(self, call: Call, accounts: Mapping[Account, Budget]) -> None:
        for account, budget in accounts.items():
            spent = self._spending.of(account)
            for percent in WARN_AT:
                said = (account, budget.amount_nanos, percent)
                if spent * 100 < budget.amount_nanos * percent or said in self._said:
                    continue
                if len(self._said) >= MOST_SAID:
                    self._said.clear()
                self._said.add(said)
                self.reached[budget.scope, percent] += 1
                _log.warning(
                    "a budget of policy %s is used up to %d %%: %s of %s per %s",
                    call.policy.slug if call.policy is not None else "",
                    percent,
                    _whose(account),
                    _money(budget.amount_nanos, budget.currency),
                    budget.window,
                )


def _applying(call: Call, model: Model | None) -> Iterator[tuple[Budget, Spender]]:
    """The budgets that a request is on, each with whose account it is. A budget by a tag that the
    request does not have is none of its own."""
    policy = call.policy
    if policy is None:
        return
    for budget in policy.budgets:
        value = _value(budget.scope, call, model)
        if value is not None:
            yield budget, Spender(budget.scope, value, budget.currency)


def _value(scope: str, call: Call, model: Model | None) -> str | None:
    if scope == "relay-key":
        return call.relay_key.id if call.relay_key is not None else None
    if scope == "policy":
        return call.policy.id if call.policy is not None else None
    if scope == "model":
        return model.id if model is not None else None
    return "" if scope == "global" else call.tags.get(scope.removeprefix("tag:"))


def _exceeded(budget: Budget, spender: Spender, now: datetime) -> RequestRefusedError:
    ends = end_of(budget.window, now)
    left = NEVER_ENDS if ends is None else (ends - now).total_seconds()
    until = "" if ends is None else f"; it begins anew at {ends:%Y-%m-%dT%H:%M:%SZ}"
    return RequestRefusedError(
        429,
        "budget_exceeded",
        f"the budget of {_money(budget.amount_nanos, budget.currency)} per {budget.window} for "
        f"{_whose(spender)} is used up{until}",
        retry_after=max(1.0, left),
    )


def _whose(spender: Spender | Account) -> str:
    if spender.dimension.startswith("tag:"):
        return f"the tag {spender.dimension.removeprefix('tag:')} {spender.value!r}"
    return {
        "relay-key": "this relay key",
        "policy": "this policy",
        "model": "this model",
        "global": "all requests",
    }[spender.dimension]


def _money(amount: int, currency: str) -> str:
    units, nanos = divmod(amount, 10**9)
    return f"{units}.{nanos:09d}".rstrip("0").rstrip(".") + f" {currency}"
