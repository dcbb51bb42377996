"""Explanations of limits and budgets: what is left, and what a request that comes now is told."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from relay_gateway.catalog.budgets import Account, Spending
from relay_gateway.limits.choose import limiter_over
from relay_gateway.pipeline.budget_gate import BudgetGate
from relay_gateway.pipeline.explanation import Explanation
from relay_gateway.testing.waiting_store import WaitingStore
from relay_gateway.testing.world import PipelineWorld, json_answer


def said(explained: Explanation, step: str) -> list[tuple[bool, str]]:
    return [(one.ok, one.message) for one in explained.steps if one.step == step]


async def test_limits_say_what_is_left_and_looking_takes_nothing(
    world: PipelineWorld, explain: Any
) -> None:
    rules = [
        {"meter": "requests", "amount": 2, "windowSeconds": 3600, "strategy": "session-window"},
        {"meter": "concurrency", "amount": 3},
        {"meter": "requests", "amount": 1, "windowSeconds": 60, "shadow": True},
    ]
    tight = world.rate_limit("tight", *rules)
    world.change(world.policy, rateLimits=[{"rateLimitId": tight}])
    for key in world.keys:
        world.change(key, policyId=world.draft.policy("free"))
    for _ in range(3):
        assert said(await explain(), "limits") == [
            (True, "tight (2 requests per 3600 s): 2 of 2 are left"),
            (True, "tight (3 concurrency): 3 of 3 are left"),
            (True, "tight (1 requests per 60 s): 1 of 1 are left; it only reports"),
        ]
    assert list(world.limiter.tally) == []
    for _ in range(2):
        assert (await world.run(world.caller(), json_answer())).outcome == "ok"
        world.records.clear()
    explained = await explain()
    assert [ok for ok, _ in said(explained, "limits")] == [False, True, False]
    assert "0 of 2 are left, all of it in 3600 s" in said(explained, "limits")[0][1]
    assert (explained.outcome.status, explained.outcome.code) == (429, "rate_limit_exceeded")
    assert "tight (2 requests per 3600 s)" in explained.outcome.message
    assert (await world.run(world.caller())).error_code == "rate_limit_exceeded"


async def test_limits_that_cannot_be_asked_say_what_then_holds(
    world: PipelineWorld, explain: Any
) -> None:
    store = WaitingStore(world.clock)
    store.mood = "fails"
    world.limit_by(limiter_over(store, world.clock))
    rule = {"meter": "requests", "amount": 2, "windowSeconds": 60, "onStateLoss": "closed"}
    world.change(world.policy, rateLimits=[{"rateLimitId": world.rate_limit("tight", rule)}])
    ((ok, message),) = said(await explain(), "limits")
    assert ok
    assert message.endswith("the state store cannot be asked, closed")


async def test_budgets_say_what_is_spent(world: PipelineWorld, explain: Any) -> None:
    spending = Spending()
    gate = BudgetGate(spending, lambda: int(world.clock.time() * 1e9))
    world.limit_by(world.limiter, gate)
    budget = {"amountNanos": 5_000_000_000, "window": "month", "scope": "policy"}
    warning = {**budget, "scope": "tag:team", "action": "warn", "amountNanos": 1}
    world.change(world.policy, budgets=[budget, warning])
    spending.put({Account("2026-01", "policy", world.policy, "USD"): 1_500_000_000,
                  Account("2026-01", "tag:team", "a", "USD"): 1},
                 datetime(2026, 1, 1, tzinfo=UTC))  # fmt: skip
    explained, one = await explain(), "0.000000001 USD"
    assert said(explained, "budgets") == [
        (True, "1.5 USD of 5 USD per month for this policy are spent or under way"),
        (False, f"{one} of {one} per month for the tag team 'a' are spent or under way"),
    ]
    assert explained.outcome.verdict == "routed"
    spending.put({Account("2026-01", "policy", world.policy, "USD"): 5_000_000_000},
                 datetime(2026, 1, 1, tzinfo=UTC))  # fmt: skip
    explained = await explain()
    assert explained.outcome.code == "budget_exceeded"
    assert (await world.run(world.caller())).error_code == "budget_exceeded"
    assert explained.outcome.status == 429


def limit_keys(world: PipelineWorld, *rules: dict[str, Any]) -> None:
    """Has each host key held to ``rules`` of its own, with a scope for the key itself."""
    rate_limit = world.rate_limit("per key", *rules)
    applied = [{"rateLimitId": rate_limit, "scope": "relay-key"}]
    tier = world.draft.policy("tier", rateLimits=applied)
    for key in world.keys:
        world.change(key, policyId=tier)


def left(explained: Explanation) -> dict[str, list[int | None]]:
    """What is left of the limits of each host key."""
    return {
        key.slug: [one.remaining for one in key.limits]
        for candidate in explained.candidates
        for key in candidate.host_keys
    }


async def test_limits_of_host_keys_are_shown_with_what_is_left(
    world: PipelineWorld, explain: Any
) -> None:
    one_a_minute = {"meter": "requests", "amount": 1, "windowSeconds": 60}
    limit_keys(
        world,
        {**one_a_minute, "strategy": "session-window"},
        {"meter": "concurrency", "amount": 3, "shadow": True},
    )
    for _ in range(2):  # to look takes nothing
        explained = await explain()
        assert left(explained) == {"k1": [1, 3], "k2": [1, 3], "k3": [1, 3]}
    first = explained.candidates[0].host_keys[0].limits
    assert [one.message for one in first] == [
        "per key (1 requests per 60 s): 1 of 1 are left",
        "per key (3 concurrency): 3 of 3 are left; it only reports",
    ]
    assert (await world.run(world.caller(), json_answer())).outcome == "ok"
    explained = await explain()
    used = next(slug for slug, (requests, _) in left(explained).items() if not requests)
    (shown,) = [key for one in explained.candidates for key in one.host_keys if key.slug == used]
    assert (shown.state, shown.limits[0].ok, shown.limits[0].reset_seconds) == (
        "available", False, 60.0
    )  # fmt: skip
    assert explained.outcome.verdict == "routed"


async def test_host_keys_without_room_refuse_as_the_pipeline_does(
    world: PipelineWorld, explain: Any
) -> None:
    limit_keys(world, {"meter": "requests", "amount": 1, "windowSeconds": 60})
    for _ in world.keys:
        assert (await world.run(world.caller(), json_answer())).outcome == "ok"
        world.records.clear()
    explained = await explain()
    assert [one.stopped_by for one in explained.candidates] == ["limited", "limited"]
    assert left(explained) == {"k1": [0], "k2": [0], "k3": [0]}
    caller = world.caller()
    record = await world.run(caller)
    assert (record.status, record.error_code) == (429, "rate_limit_exceeded")
    assert (explained.outcome.status, explained.outcome.code) == (429, "rate_limit_exceeded")
    assert explained.outcome.body == json.loads(caller.body)


async def test_a_host_without_room_is_passed_over_for_the_next_one(
    world: PipelineWorld, explain: Any
) -> None:
    limit_keys(world, {"meter": "requests", "amount": 1, "windowSeconds": 60})
    world.draft.rows[4].spec["bindings"][1]["priority"] = 9
    world.publish()
    assert (await explain()).outcome.hosts == ("east",)
    for _ in range(2):
        assert (await world.run(world.caller(), json_answer())).outcome == "ok"
        world.records.clear()
    explained = await explain()
    assert [one.stopped_by for one in explained.candidates] == ["limited", None]
    assert explained.outcome.hosts == ("west",)


async def test_limits_of_host_keys_that_cannot_be_asked_are_shown_as_unknown(
    world: PipelineWorld, explain: Any
) -> None:
    store = WaitingStore(world.clock)
    store.mood = "fails"
    world.limit_by(limiter_over(store, world.clock))
    limit_keys(world, {"meter": "requests", "amount": 1, "windowSeconds": 60})
    explained = await explain()
    assert left(explained) == {"k1": [None], "k2": [None], "k3": [None]}
    assert explained.outcome.verdict == "routed"
    shown = explained.candidates[0].host_keys[0].limits[0]
    assert (shown.ok, shown.reset_seconds) == (True, None)
