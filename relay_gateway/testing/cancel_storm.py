"""Requests that are all cancelled while an upstream is being waited for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from relay_gateway.catalog.budgets import Account, Spending
from relay_gateway.limits.limiter import Limiter
from relay_gateway.pipeline.budget_gate import BudgetGate
from relay_gateway.testing.world import PipelineWorld

BODY = b'{"model":"m","max_tokens":40}'


@dataclass(frozen=True, slots=True)
class Remains:
    """What there was while all requests were under way, and when they had been cancelled."""

    limits: tuple[int, ...]
    left_during: tuple[int, ...]
    left_after: tuple[int, ...]
    budget_after: int


async def cancel_storm(world: PipelineWorld, limiter: Limiter, number: int) -> Remains:
    """Has ``number`` callers ask at once, under a rule of each kind that has room for just so many,
    and leave."""
    spending = Spending()
    world.limit_by(limiter, BudgetGate(spending))
    rate_limit = world.rate_limit(
        "all",
        {"meter": "concurrency", "amount": number},
        {"meter": "tokens", "amount": 100 * number, "windowSeconds": 864000},
        {"meter": "requests", "amount": number, "windowSeconds": 864000},
        {
            "meter": "requests",
            "amount": number,
            "windowSeconds": 864000,
            "strategy": "sliding-window",
        },
    )
    budget = {"amountNanos": 10**15, "window": "total", "scope": "policy"}
    world.change(world.policy, rateLimits=[{"rateLimitId": rate_limit}], budgets=[budget])
    world.client.replies = [None] * number
    callers = [world.caller(BODY) for _ in range(number)]
    calls = [world.call(caller) for caller in callers]
    tasks = [
        asyncio.create_task(world.handle(caller, call))
        for caller, call in zip(callers, calls, strict=True)
    ]
    while len(world.client.sent) < number:  # noqa: ASYNC110 - each of them is under way
        await asyncio.sleep(0)
    reservation = calls[0].reservation
    assert reservation is not None
    holds = reservation.holds
    during = await limiter.look("during", holds)
    for caller in callers:
        caller.disconnect()
    await asyncio.gather(*tasks, return_exceptions=True)
    after = await limiter.look("after", holds)
    assert during is not None
    assert after is not None
    spent = spending.of(Account("total", "policy", world.policy, "USD"))
    return Remains(tuple(hold.limit for hold in holds), during.remaining, after.remaining, spent)
