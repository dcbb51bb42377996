"""Budgets hold across restarts and instances, and say what they refuse and why."""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from relay_gateway.settings.data_dir import new_master_key
from relay_gateway.testing.process import GatewayProcess

BODY = {"model": "echo", "messages": [{"role": "user", "content": "one two three"}]}
COST = 1000
"""What a request is made to cost, in nano-units."""
PATIENCE = 60


async def made(control: httpx.AsyncClient, path: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    answer = await control.post(path, json={"metadata": {"displayName": "b"}, "spec": spec})
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def relay_key(control: httpx.AsyncClient, budgets: list[Mapping[str, Any]]) -> str:
    """A key whose policy has ``budgets``, where each request to the echo model costs ``COST``."""
    (model,) = (await control.get("/models", params={"slug": "echo"})).json()["items"]
    rates = [{"meter": "requests", "unit": "perUnit", "amount": "0.000001"}]
    pricing = await made(control, "/pricings", {"currency": "USD", "rates": rates})
    model["spec"]["bindings"][0]["pricingId"] = pricing["metadata"]["id"]
    answer = await control.put(
        f"/models/by-id/{model['metadata']['id']}",
        json={"metadata": {"displayName": "Echo"}, "spec": model["spec"]},
    )
    assert answer.status_code == 200, answer.text
    policy = await made(control, "/policies", {"models": ["*"], "budgets": budgets})
    spec = {"policyId": policy["metadata"]["id"], "tags": {"team": "blue"}}
    issued = await made(control, "/relay-keys", spec)
    plaintext: str = issued["plaintext"]
    return plaintext


def caller(gateway: GatewayProcess, key: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        base_url=gateway.inference_url, headers={"authorization": f"Bearer {key}"}, trust_env=False
    )


async def ask(client: httpx.AsyncClient) -> httpx.Response:
    return await client.post("/v1/chat/completions", json=BODY)


async def spent(control: httpx.AsyncClient) -> int:
    (one,) = (await control.get("/usage/budgets")).json()["items"]
    nanos: int = one["spentNanos"]
    return nanos


async def until_spent(control: httpx.AsyncClient, wanted: int) -> None:
    for _ in range(PATIENCE * 10):
        if await spent(control) == wanted:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"{await spent(control)} nano-units are booked, not {wanted}")


@pytest.fixture(params=["sqlite", "postgresql"])
def environ(request: pytest.FixtureRequest) -> dict[str, str]:
    found = {"RELAY_ADMIN_TOKEN": secrets.token_hex(20), "RELAY_MASTER_KEY": new_master_key()}
    if request.param == "postgresql":
        found["RELAY_DATABASE_URL"] = request.getfixturevalue("postgres_url")
    return found


async def test_a_budget_is_kept_to_the_last_request_and_after_kill_9(
    environ: dict[str, str], tmp_path: Path
) -> None:
    budget = {"amountNanos": 5 * COST, "window": "month", "scope": "relay-key"}
    async with GatewayProcess(tmp_path, environ) as gateway:
        async with gateway.control() as control:
            key = await relay_key(control, [budget])
            async with caller(gateway, key) as client:
                for _ in range(3):
                    assert (await ask(client)).status_code == 200
        gateway.send_signal(signal.SIGKILL)
        await gateway.wait(seconds=10)
        await gateway.start()
        async with gateway.control() as control, caller(gateway, key) as client:
            await until_spent(control, 3 * COST)
            answers = [await ask(client) for _ in range(4)]
            assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
            refusal = answers[2]
            assert refusal.json()["error"]["code"] == "budget_exceeded"
            assert "0.000005 USD per month" in refusal.json()["error"]["message"]
            assert 1 <= int(refusal.headers["retry-after"]) <= 31 * 86_400
            await until_spent(control, 5 * COST)
            (shown,) = (await control.get("/usage/budgets")).json()["items"]
            assert (shown["state"], shown["scope"]) == ("exceeded", "relay-key")
            assert (await control.get("/usage/budgets?policyId=none")).json() == {"items": []}


async def test_instances_see_what_the_other_has_spent(postgres_url: str, tmp_path: Path) -> None:
    environ = {
        "RELAY_ADMIN_TOKEN": secrets.token_hex(20),
        "RELAY_MASTER_KEY": new_master_key(),
        "RELAY_DATABASE_URL": postgres_url,
    }
    budget = {"amountNanos": 4 * COST, "window": "day", "scope": "tag:team"}
    async with AsyncExitStack() as stack:
        directories = (tmp_path / "a", tmp_path / "b")
        for directory in directories:
            directory.mkdir()
        first, second = [
            await stack.enter_async_context(GatewayProcess(directory, environ))
            for directory in directories
        ]
        control = await stack.enter_async_context(first.control())
        key = await relay_key(control, [budget])
        async with caller(first, key) as client:
            for _ in range(4):
                assert (await ask(client)).status_code == 200
            assert (await ask(client)).status_code == 429
        async with caller(second, key) as client:
            for _ in range(PATIENCE):
                answer = await ask(client)
                if answer.status_code == 429:
                    break
                await asyncio.sleep(0.2)
            assert answer.json()["error"]["code"] == "budget_exceeded"
            assert "the tag team 'blue'" in answer.json()["error"]["message"]


async def test_a_warning_budget_refuses_nothing_and_says_so_once(tmp_path: Path) -> None:
    environ = {"RELAY_ADMIN_TOKEN": secrets.token_hex(20), "RELAY_LOG_FORMAT": "json"}
    budget = {"amountNanos": 2 * COST, "window": "total", "scope": "policy", "action": "warn"}
    async with AsyncExitStack() as stack:
        gateway = await stack.enter_async_context(GatewayProcess(tmp_path, environ))
        control = await stack.enter_async_context(gateway.control())
        key = await relay_key(control, [budget])
        client = await stack.enter_async_context(caller(gateway, key))
        assert [(await ask(client)).status_code for _ in range(5)] == [200] * 5
        await until_spent(control, 5 * COST)
    said = [line for line in gateway.stderr.splitlines() if "a budget of policy" in line]
    assert [("80 %" in line, "100 %" in line) for line in said] == [(True, False), (False, True)]
