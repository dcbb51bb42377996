"""Four workers and one budget: what they can overrun it by, and what is known after a restart."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from relay_gateway.settings.data_dir import new_master_key
from relay_gateway.testing.held import MODEL, Call, Held, running_held

WORKERS = 4
CALLERS = 200
COST = 1000
"""What each request costs, and is expected to, in nano-units."""
ROOM = 10
"""For so many requests there is money."""
PATIENCE = 60.0
ENOUGH_REFUSALS = 60


@pytest.fixture(params=["sqlite", "postgresql"])
async def held(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Held]:
    environ = {
        "RELAY_WORKERS": str(WORKERS),
        "RELAY_ADMIN_TOKEN": secrets.token_hex(20),
        "RELAY_MASTER_KEY": new_master_key(),
    }
    if request.param == "postgresql":
        environ["RELAY_DATABASE_URL"] = request.getfixturevalue("postgres_url")
    async with running_held(tmp_path, "openai", environ) as held:
        yield held


async def budgeted(held: Held) -> Held:
    """With a relay key, known to every worker, under a budget for ``ROOM`` requests."""
    scenario = held.scenario
    rates = [{"meter": "requests", "unit": "perUnit", "amount": "0.000001"}]
    pricing = await scenario.create("pricings", "Each", currency="USD", rates=rates)
    (model,) = (await scenario.admin.get("/models", params={"slug": MODEL})).json()["items"]
    model["spec"]["bindings"][0]["pricingId"] = pricing
    changed = await scenario.admin.put(f"/models/by-id/{model['metadata']['id']}", json=model)
    assert changed.status_code == 200, changed.text
    budget = {"amountNanos": ROOM * COST, "window": "total", "scope": "policy"}
    policy = await scenario.create("policies", "Budget", models=["*"], budgets=[budget])
    key = await scenario.relay_key("spender", policy)
    known = held.called_with(key)
    await known.until_every_worker_answers(200)
    return known


async def begin_all(held: Held) -> list[Call]:
    """The streams that begin, of so many that are asked for at once."""
    answers = await asyncio.gather(*(held.begin() for _ in range(CALLERS)))
    assert {status for status, _ in answers} == {200, 429}
    return [call for status, call in answers if status == 200]


async def until_every_worker_refuses(held: Held) -> int:
    """How many requests were let pass until then."""
    passed = refusals = 0
    async with asyncio.timeout(PATIENCE):
        while refusals < ENOUGH_REFUSALS:
            status, call = await held.begin()
            refusals = refusals + 1 if status == 429 else 0
            if status == 200:
                passed += 1
                await call.whole_stream()
            call.writer.close()
    return passed


async def until_spent(admin: httpx.AsyncClient, wanted: int) -> None:
    """Waits until ``GET /usage/budgets`` says so."""
    async with asyncio.timeout(PATIENCE):
        while True:
            (budget,) = (await admin.get("/usage/budgets")).json()["items"]
            assert budget["spentNanos"] <= wanted
            if budget["spentNanos"] == wanted:
                assert (budget["state"], budget["amountNanos"]) == ("exceeded", ROOM * COST)
                return
            await asyncio.sleep(0.1)


async def test_four_workers_overrun_a_budget_by_no_more_than_they_have_under_way(
    held: Held,
) -> None:
    held = await budgeted(held)
    begun = await begin_all(held)
    assert ROOM <= len(begun) <= WORKERS * ROOM
    held.upstream.finish.set()
    await asyncio.gather(*(call.whole_stream() for call in begun))
    passed = len(begun) + await until_every_worker_refuses(held)
    await until_spent(held.scenario.admin, passed * COST)

    await held.gateway.kill()
    await held.gateway.start()
    # Nobody has to be waited for: each worker has read what was spent before it serves.
    assert await until_every_worker_refuses(held) == 0
    async with held.gateway.control() as admin:
        await until_spent(admin, passed * COST)
