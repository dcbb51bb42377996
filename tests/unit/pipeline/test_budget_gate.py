"""Budgets in the pipeline: what is refused, what is under way, and what a request gives back."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest

from relay_gateway.catalog.budgets import Account, Spending, period_of
from relay_gateway.errors import UpstreamConnectError
from relay_gateway.limits.choose import in_memory, limiter_over
from relay_gateway.pipeline.budget_gate import NEVER_ENDS, BudgetGate
from relay_gateway.testing.busy_store import BusyStore
from relay_gateway.testing.callers import FakeCaller
from relay_gateway.testing.world import PipelineWorld, json_answer

ASKED = b'{"model":"m","max_tokens":40}'
PRICE = 1000
"""Of a token of output, in nano-units; those of input cost nothing."""
ESTIMATE = 40 * PRICE
COST = 5 * PRICE
"""What the answer ``3:5`` costs."""
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


class Budgeted:
    """The world of the pipeline with budgets, where the answers have a price."""

    def __init__(self, world: PipelineWorld) -> None:
        self.world = world
        self.spending = Spending()
        self.gate = BudgetGate(self.spending, lambda: int(world.clock.time() * 1e9))
        world.limit_by(in_memory(world.clock), self.gate)
        rates = [
            {"meter": "tokens.output", "amount": "1"},
            {"meter": "tokens.input", "amount": "0"},
        ]
        pricing = world.draft.add("pricing", "dear", {"currency": "USD", "rates": rates})
        world.change(world.model, bindings=[{"hostId": world.east, "pricingId": pricing}])

    def budget(self, amount: int, **fields: str) -> None:
        """The one budget of the policy of callers; host keys have a policy without."""
        world = self.world
        free = world.draft.policy("free")
        for key in world.keys:
            world.change(key, policyId=free)
        one = {"amountNanos": amount, "window": "month", "scope": "policy", **fields}
        world.change(world.policy, budgets=[one])

    def used(self, scope: str = "policy", value: str | None = None) -> int:
        """What was spent, and is under way, by the estimate."""
        whose = self.world.policy if value is None else value
        return self.spending.of(Account("2026-01", scope, whose, "USD"))

    async def begin(self, *replies: Any) -> tuple[asyncio.Task[None], FakeCaller]:
        """One more request, as far as it gets by itself."""
        caller = self.world.caller(ASKED)
        self.world.client.replies += list(replies)
        call = self.world.call(caller)
        # Budgets go by the calendar, and that is the one of the test.
        call.started_ns = int(self.world.clock.time() * 1e9)
        call.tags = {"team": "a"}
        task = asyncio.ensure_future(self.world.handle(caller, call))
        for _ in range(5):
            await asyncio.sleep(0)
        return task, caller

    async def ask(self, *replies: Any) -> FakeCaller:
        """One request that is answered."""
        task, caller = await self.begin(*(replies or (json_answer(),)))
        await task
        await caller.wait_for_end()
        return caller


@pytest.fixture
def budgeted(world: PipelineWorld) -> Budgeted:
    return Budgeted(world)


def error_of(caller: FakeCaller) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(caller.body)["error"]
    return found


async def test_what_is_used_up_refuses_with_whose_and_until_when(budgeted: Budgeted) -> None:
    budgeted.budget(2 * COST)
    assert [(await budgeted.ask()).status for _ in range(2)] == [200, 200]
    refused = await budgeted.ask()
    assert (refused.status, error_of(refused)["code"]) == (429, "budget_exceeded")
    assert "per month" in error_of(refused)["message"]
    wait = re.search(rb"retry-after: (\d+)", refused.header_block)
    assert wait is not None
    assert 30 * 86_400 < int(wait[1]) <= 31 * 86_400 * 1.1
    assert dict(budgeted.gate.refusals) == {"policy": 1}
    assert len(budgeted.world.client.sent) == 2
    assert budgeted.used() == 2 * COST


async def test_a_budget_without_end_says_to_come_again_tomorrow(budgeted: Budgeted) -> None:
    budgeted.budget(1, window="total")
    assert (await budgeted.ask()).status == 200
    refused = await budgeted.ask()
    wait = re.search(rb"retry-after: (\d+)", refused.header_block)
    assert wait is not None
    assert NEVER_ENDS <= int(wait[1]) <= NEVER_ENDS * 1.1


async def test_callers_at_once_overrun_a_budget_by_less_than_one_of_them(
    budgeted: Budgeted,
) -> None:
    amount = 10 * ESTIMATE - 1
    budgeted.budget(amount)
    begun = [await budgeted.begin(None) for _ in range(50)]
    assert budgeted.used() == 10 * ESTIMATE < amount + ESTIMATE
    assert sum(caller.status == 429 for _, caller in begun) == 40
    for task, _ in begun:
        task.cancel()
    await asyncio.gather(*(task for task, _ in begun), return_exceptions=True)
    assert budgeted.used() == 0


async def test_t38_cancelled_refused_and_failed_requests_hold_nothing(budgeted: Budgeted) -> None:
    budgeted.budget(10**9)
    task, _ = await budgeted.begin(None)
    assert budgeted.used() == ESTIMATE
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert budgeted.used() == 0
    failed = await budgeted.ask(*[UpstreamConnectError("refused")] * 4)
    assert failed.status in (502, 503)
    budgeted.world.client.replies.clear()
    assert (await budgeted.ask(json_answer(400, b"{}"))).status == 400
    budgeted.world.client.replies.clear()
    rule = {"meter": "requests", "amount": 1, "windowSeconds": 3600}
    tight = budgeted.world.rate_limit("tight", rule)
    budgeted.world.change(budgeted.world.policy, rateLimits=[{"rateLimitId": tight}])
    assert [(await budgeted.ask()).status for _ in range(2)] == [200, 429]
    assert budgeted.used() == COST


async def test_the_cost_stands_where_the_estimate_was(budgeted: Budgeted) -> None:
    budgeted.budget(ESTIMATE + COST)
    assert (await budgeted.ask()).status == 200
    task, _ = await budgeted.begin(None)
    assert budgeted.used() == ESTIMATE + COST
    assert (await budgeted.ask()).status == 429
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert (await budgeted.ask()).status == 200


@pytest.mark.parametrize(
    ("scope", "value"),
    [("relay-key", "key"), ("model", "model"), ("tag:team", "a"), ("global", "")],
)
async def test_each_scope_counts_whose_it_is(budgeted: Budgeted, scope: str, value: str) -> None:
    budgeted.budget(COST, scope=scope)
    assert [(await budgeted.ask()).status for _ in range(2)] == [200, 429]
    (key,) = budgeted.world.snapshot().relay_keys.values()
    own = {"key": key.key.id, "model": budgeted.world.model}.get(value, value)
    assert budgeted.used(scope, own) == COST
    assert dict(budgeted.gate.refusals) == {scope: 1}


async def test_another_currency_and_a_tag_that_is_not_there_are_held_to_nothing(
    budgeted: Budgeted,
) -> None:
    budgeted.budget(1, currency="EUR")
    assert [(await budgeted.ask()).status for _ in range(3)] == [200] * 3
    budgeted.budget(1, scope="tag:project")
    assert [(await budgeted.ask()).status for _ in range(3)] == [200] * 3


async def test_a_warning_is_said_once_for_each_mark_and_period(
    budgeted: Budgeted, caplog: pytest.LogCaptureFixture
) -> None:
    budgeted.budget(5 * COST, action="warn")
    with caplog.at_level(logging.WARNING, logger="relay_gateway.pipeline.budget_gate"):
        for _ in range(8):
            assert (await budgeted.ask()).status == 200
        said = [record.getMessage() for record in caplog.records]
        assert [("80 %" in one, "100 %" in one) for one in said] == [(True, False), (False, True)]
        assert "0.000025 USD" in said[0]
        budgeted.world.clock.advance(31 * 86_400)
        for _ in range(4):
            assert (await budgeted.ask()).status == 200
    assert dict(budgeted.gate.reached) == {("policy", 80): 2, ("policy", 100): 1}
    assert not budgeted.gate.refusals


async def test_a_new_period_begins_with_nothing_spent(budgeted: Budgeted) -> None:
    budgeted.budget(COST, window="day")
    assert [(await budgeted.ask()).status for _ in range(2)] == [200, 429]
    budgeted.world.clock.advance(86_400)
    assert [(await budgeted.ask()).status for _ in range(2)] == [200, 429]
    days = [period_of("day", BEGIN), period_of("day", BEGIN.replace(day=2))]
    policy = budgeted.world.policy
    assert [budgeted.spending.of(Account(day, "policy", policy, "USD")) for day in days] == [
        COST, COST
    ]  # fmt: skip


async def test_a_request_whose_limits_are_waited_for_is_under_way_once(
    budgeted: Budgeted,
) -> None:
    budgeted.budget(10**9)
    world, store = budgeted.world, BusyStore(budgeted.world.clock)
    world.limit_by(limiter_over(store, world.clock), budgeted.gate)
    tight = world.rate_limit("tight", {"meter": "requests", "amount": 1, "windowSeconds": 3600})
    world.change(world.policy, rateLimits=[{"rateLimitId": tight}])
    store.busy = 3
    task, caller = await budgeted.begin(json_answer())
    assert (budgeted.used(), caller.status) == (ESTIMATE, 0)
    await task
    assert (caller.status, budgeted.used()) == (200, COST)
    assert (await budgeted.ask()).status == 429, "the store was waited for, not done without"
    assert budgeted.used() == COST
