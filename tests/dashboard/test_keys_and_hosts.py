"""What only keys and hosts can do: rotate with grace, revoke, be reset, be tested."""

from __future__ import annotations

from typing import Any

import httpx
from playwright.async_api import expect

from relay_gateway.testing.dashboard import Dashboard
from relay_gateway.testing.process import GatewayProcess
from relay_gateway.testing.script import json_response
from relay_gateway.testing.upstream import ScriptedUpstream

ASK = {"model": "echo", "messages": [{"role": "user", "content": "Hello"}]}


async def created(
    admin: httpx.AsyncClient, plural: str, called: str, /, **spec: Any
) -> dict[str, Any]:
    answer = await admin.post(
        f"/{plural}", json={"metadata": {"displayName": called}, "spec": spec}
    )
    assert answer.status_code == 201, answer.text
    entity: dict[str, Any] = answer.json()
    return entity


async def default_policy(admin: httpx.AsyncClient) -> str:
    policy: dict[str, Any] = (await admin.get("/policies/default")).json()
    return str(policy["metadata"]["id"])


async def status_with(gateway: GatewayProcess, key: str) -> int:
    async with httpx.AsyncClient(trust_env=False) as client:
        headers = {"authorization": f"Bearer {key}"}
        url = f"{gateway.inference_url}/v1/chat/completions"
        return (await client.post(url, json=ASK, headers=headers)).status_code


async def test_a_relay_key_rotates_with_grace_and_is_revoked(
    operator: Dashboard, gateway: GatewayProcess, admin: httpx.AsyncClient
) -> None:
    made = await created(admin, "relay-keys", "Shop", policyId=await default_policy(admin))
    old = made["plaintext"]
    await operator.open(f"/relay-keys/{made['relayKey']['metadata']['id']}")
    await operator.press("Rotate")
    await operator.fill("Time of grace in seconds", "3600")
    await operator.confirm("Rotate")
    new = await operator.dialog().locator("pre").inner_text()
    await operator.confirm("I have copied it")
    assert new != old
    await operator.sees("version 2")
    assert new not in await operator.page.content()
    assert [await status_with(gateway, key) for key in (old, new)] == [200, 200]

    await operator.press("Revoke")
    await operator.confirm("Revoke")
    await operator.toast("Revoked")
    await expect(operator.page.get_by_role("button", name="Rotate")).to_have_count(0)
    await expect(operator.page.locator(".badge").filter(has_text="revoked")).to_be_visible()
    assert [await status_with(gateway, key) for key in (old, new)] == [401, 401]


async def test_a_benched_host_key_says_why_and_goes_back_to_use(
    operator: Dashboard, gateway: GatewayProcess, admin: httpx.AsyncClient
) -> None:
    policy = await default_policy(admin)
    refusal = {"error": {"message": "bad key", "type": "invalid_request_error", "code": "x"}}
    async with ScriptedUpstream(lambda _: json_response(401, refusal)) as upstream:
        host = await created(admin, "hosts", "Acme", baseUrl=upstream.url, adapter="openai")
        identity = host["metadata"]["id"]
        secret = {"kind": "stored", "value": "sk-first"}
        key = await created(
            admin, "host-keys", "Acme key", hostId=identity, policyId=policy, valueFrom=secret
        )
        provider = (await admin.get("/providers/echo")).json()["metadata"]["id"]
        binding = {"hostId": identity, "upstreamName": "m"}
        await created(
            admin, "models", "Acme model", name="acme", providerId=provider, bindings=[binding]
        )
        caller = (await created(admin, "relay-keys", "Asks", policyId=policy))["plaintext"]
        async with httpx.AsyncClient(trust_env=False) as client:
            await client.post(
                f"{gateway.inference_url}/v1/chat/completions",
                json={**ASK, "model": "acme"},
                headers={"authorization": f"Bearer {caller}"},
            )
        await operator.open("/")
        health = operator.page.get_by_role("region", name="Health")
        await expect(health).to_contain_text("benched")
        await health.get_by_role("link", name="Acme key").click()
        await expect(operator.page.get_by_role("region", name="State")).to_contain_text("benched")
        await operator.press("Put back to use")
        await operator.toast("The key is in use again")
        await expect(operator.page.get_by_role("region", name="State")).to_contain_text("available")

        await operator.press("Rotate")
        await operator.fill("New value", "sk-second")
        await operator.confirm("Rotate")
        await operator.toast("The new value is in use")
        assert "sk-second" not in await operator.page.content()
        stored = (await admin.get(f"/host-keys/{key['metadata']['id']}")).json()
        assert stored["metadata"]["version"] == 2
    await admin.delete("/models/acme-model")


async def test_a_host_is_tested_by_a_button(operator: Dashboard, admin: httpx.AsyncClient) -> None:
    await operator.open("/hosts/echo")
    await operator.press("Test")
    await expect(operator.dialog().locator(".notice.good")).to_be_visible()
    await operator.confirm("Close")
    dead = await created(
        admin, "hosts", "Nobody", baseUrl="http://127.0.0.1:9", adapter="openai", noAuth=True
    )
    await operator.open(f"/hosts/{dead['metadata']['id']}")
    await operator.press("Test")
    await expect(operator.dialog().locator(".notice.bad")).to_be_visible()
