"""Explained, tested, called, and known to have been used: on a gateway as operators run it."""

from __future__ import annotations

import json
from typing import Any

import httpx

from relay_gateway.testing.scenario import Scenario


async def found(scenario: Scenario, path: str, **query: str) -> dict[str, Any]:
    answer = await scenario.admin.get(path, params=query)
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def doctor(scenario: Scenario) -> dict[str, tuple[bool, str]]:
    _, out, err = await scenario.gateway.run("doctor", "--json")
    assert out, err
    return {item["name"]: (item["ok"], item["detail"]) for item in json.loads(out)}


async def test_what_is_explained_happens_and_leaves_its_trace(scenario: Scenario) -> None:
    provider = await scenario.create("providers", "Acme")
    host = await scenario.create(
        "hosts", "Acme chat", baseUrl=f"{scenario.upstream.url}/v1", adapter="openai"
    )
    await scenario.create(
        "models", "Chat", name="acme-chat", providerId=provider, bindings=[{"hostId": host}]
    )
    policy = await scenario.create("policies", "Everything", models=["acme"])
    value = {"kind": "env", "env": "ACME_API_KEY"}
    await scenario.create("host-keys", "Key", hostId=host, policyId=policy, valueFrom=value)
    relay_key = await scenario.relay_key("app", policy)

    explained = await found(
        scenario, "/catalog/resolve", model="acme-chat", relayKeyId="app"
    )  # fmt: skip
    assert explained["explanation"]["outcome"]["hosts"] == ["acme-chat"]
    assert explained["explanation"]["request"]["endpoint"] == "chat.completions"
    assert len(scenario.upstream.ledger) == 0
    tested = (await scenario.admin.post(f"/hosts/by-id/{host}/test")).json()
    assert (tested["reachable"], tested["error"]) == (True, "unexpected_answer")
    assert scenario.upstream.ledger[0].target == "/v1/models"

    before = await found(scenario, "/relay-keys/app")
    assert before["status"] == {"lastUsedAt": None}
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.post(
            f"{scenario.gateway.inference_url}/v1/chat/completions",
            json={"model": "acme-chat", "messages": []},
            headers={"Authorization": f"Bearer {relay_key}"},
        )
    assert (answer.status_code, answer.headers["x-relay-host"]) == (200, "acme-chat")

    await scenario.gateway.stop()
    assert (await doctor(scenario))["host acme-chat"][0]
    code, listed, _ = await scenario.gateway.run("keys", "show", "app", "--json")
    assert code == 0
    after = json.loads(listed)
    assert after["status"]["lastUsedAt"].endswith(":00Z")
    assert after["metadata"]["version"] == before["metadata"]["version"]
    assert after["metadata"]["updatedAt"] == before["metadata"]["updatedAt"]

    await scenario.upstream.aclose()
    ok, detail = (await doctor(scenario))["host acme-chat"]
    assert not ok
    assert "baseUrl" in detail
    await scenario.sweep(listed, str(tested), str(explained))
