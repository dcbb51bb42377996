"""Limits of concurrency and cost, met over HTTP by a gateway as operators run it."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from relay_gateway.testing.held import MODEL, Call, Held, running_held
from relay_gateway.testing.process import GatewayProcess

COST = 1000
"""What a request to the echo model is made to cost, in nano-units."""


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[Held]:
    async with running_held(tmp_path, "openai", {}) as held:
        yield held


async def begin(held: Held, key: str) -> tuple[bytes, Call]:
    """The head of the answer to a stream that is asked for, and its connection."""
    call = await held.connect()
    body = {"model": MODEL, "stream": True, "messages": []}
    await call.ask("POST", "/v1/chat/completions", key, body)
    return await call.reader.readuntil(b"\r\n\r\n"), call


def status(head: bytes) -> int:
    return int(head.split(b" ", 2)[1])


async def test_a_slot_is_free_again_when_its_caller_leaves_or_has_its_answer(held: Held) -> None:
    scenario = held.scenario
    rule = {"meter": "concurrency", "amount": 3}
    rate_limit = await scenario.create("rate-limits", "slots", rules=[rule])
    policy = await scenario.create("policies", "slots", models=["*"])
    key = await scenario.relay_key("slots", policy, rateLimitIds=[rate_limit])
    begun = [await begin(held, key) for _ in range(4)]
    assert [status(head) for head, _ in begun] == [200, 200, 200, 429]
    refused, call = begun[3]
    assert b"retry-after: 1\r\n" in refused.lower() or b"retry-after: 2\r\n" in refused.lower()
    length = refused.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
    error = json.loads(await call.reader.readexactly(int(length)))["error"]
    assert (error["code"], error["type"]) == ("rate_limit_exceeded", "rate_limit_error")
    assert "slots (3 concurrency)" in error["message"]
    begun[0][1].writer.close()
    async with asyncio.timeout(10):
        while status((again := await begin(held, key))[0]) != 200:  # noqa: ASYNC110 - it is asked
            await asyncio.sleep(0.02)
    assert status((await begin(held, key))[0]) == 429
    held.upstream.finish.set()
    for _, stream in (*begun[1:3], again):
        await stream.whole_stream()
    after = [await begin(held, key) for _ in range(3)]
    assert [status(head) for head, _ in after] == [200, 200, 200]


async def made(control: httpx.AsyncClient, path: str, **spec: Any) -> dict[str, Any]:
    answer = await control.post(path, json={"metadata": {"displayName": "l"}, "spec": spec})
    assert answer.status_code == 201, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def costly_key(control: httpx.AsyncClient, rule: dict[str, Any]) -> str:
    """A key under this one rule, with which a request to the echo model costs ``COST``."""
    (model,) = (await control.get("/models", params={"slug": "echo"})).json()["items"]
    rates = [{"meter": "requests", "unit": "perUnit", "amount": "0.000001"}]
    pricing = await made(control, "/pricings", currency="USD", rates=rates)
    model["spec"]["bindings"][0]["pricingId"] = pricing["metadata"]["id"]
    answer = await control.put(
        f"/models/by-id/{model['metadata']['id']}",
        json={"metadata": {"displayName": "Echo"}, "spec": model["spec"]},
    )
    assert answer.status_code == 200, answer.text
    rate_limit = (await made(control, "/rate-limits", rules=[rule]))["metadata"]["id"]
    policy = await made(
        control, "/policies", models=["*"], rateLimits=[{"rateLimitId": rate_limit}]
    )
    issued = await made(control, "/relay-keys", policyId=policy["metadata"]["id"])
    plaintext: str = issued["plaintext"]
    return plaintext


async def test_cost_is_claimed_before_and_counted_to_the_last_unit(tmp_path: Path) -> None:
    environ = {"RELAY_ADMIN_TOKEN": secrets.token_hex(20)}
    rule = {
        "meter": "cost",
        "amount": 3 * COST - 1,
        "windowSeconds": 3600,
        "strategy": "session-window",
    }
    async with GatewayProcess(tmp_path, environ) as gateway, gateway.control() as control:
        key = await costly_key(control, rule)
        headers = {"authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(
            base_url=gateway.inference_url, headers=headers, trust_env=False
        ) as client:
            body = {"model": "echo", "messages": [{"role": "user", "content": "one"}]}
            answers = [await client.post("/v1/chat/completions", json=body) for _ in range(4)]
        assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
        assert answers[2].json()["error"]["code"] == "rate_limit_exceeded"
        assert 3500 <= int(answers[2].headers["retry-after"]) <= 3600 * 1.1
        # What is left is not enough for one more, and the explanation says how much it is.
        key_id = (await control.get("/relay-keys")).json()["items"][0]["metadata"]["id"]
        found = await control.get(
            "/catalog/resolve", params={"model": "echo", "relayKeyId": key_id}
        )
        steps = {step["step"]: step["message"] for step in found.json()["explanation"]["steps"]}
        assert f"{COST - 1} of {3 * COST - 1} are left" in steps["limits"]
