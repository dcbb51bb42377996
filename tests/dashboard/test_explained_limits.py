"""What the explain view shows of the limits of host keys: what is left, what is used up."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest_asyncio
from playwright.async_api import expect

from relay_gateway.testing.canary import Canary
from relay_gateway.testing.dashboard import Dashboard
from relay_gateway.testing.process import GatewayProcess
from relay_gateway.testing.scenario import Scenario
from relay_gateway.testing.script import json_response
from relay_gateway.testing.upstream import ScriptedUpstream

ANSWER = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Hi"}}],
    "usage": {"prompt_tokens": 1, "completion_tokens": 1},
}
ONE_AN_HOUR = {
    "meter": "requests",
    "amount": 1,
    "windowSeconds": 3600,
    "strategy": "session-window",
}


@dataclass(frozen=True)
class Limited:
    """A model whose host has two keys, each good for one request an hour."""

    gateway: GatewayProcess
    relay_key: str

    async def ask(self) -> int:
        """The status of one request."""
        body = {"model": "acme-limited", "messages": [{"role": "user", "content": "Hello"}]}
        async with httpx.AsyncClient(trust_env=False) as client:
            answer = await client.post(
                f"{self.gateway.inference_url}/v1/chat/completions",
                json=body,
                headers={"authorization": f"Bearer {self.relay_key}"},
            )
        return answer.status_code


@pytest_asyncio.fixture(loop_scope="session")
async def limited(gateway: GatewayProcess, admin: httpx.AsyncClient) -> AsyncIterator[Limited]:
    async with ScriptedUpstream(lambda _: json_response(200, ANSWER)) as upstream:
        scenario = Scenario(gateway, admin, upstream, Canary())
        rate_limit = await scenario.create("rate-limits", "Hourly", rules=[ONE_AN_HOUR])
        applied = [{"rateLimitId": rate_limit, "scope": "relay-key"}]
        tier = await scenario.create("policies", "Tier", models=["*"], rateLimits=applied)
        host = await scenario.create("hosts", "Limited", baseUrl=upstream.url, adapter="openai")
        for name in ("First", "Second"):
            value = {"kind": "stored", "value": f"sk-{name}"}
            await scenario.create("host-keys", name, hostId=host, policyId=tier, valueFrom=value)
        provider = await scenario.create("providers", "Acme")
        await scenario.create(
            "models",
            "Limited",
            name="acme-limited",
            providerId=provider,
            bindings=[{"hostId": host}],
        )
        policy = await scenario.create("policies", "Callers", models=["*"])
        yield Limited(gateway, await scenario.relay_key("Limited caller", policy))


async def test_limits_of_host_keys_are_shown_until_all_are_used_up(
    operator: Dashboard, limited: Limited
) -> None:
    page = operator.page
    await operator.open("/explain?model=acme-limited")
    await operator.pick("#ask-key", "Limited caller")
    await operator.press("Explain")
    candidates = page.get_by_role("region", name="In the order of trying")
    used_up = candidates.locator(".badge.bad", has_text="used up")
    untouched = candidates.get_by_text("Hourly (1 requests per 3600 s): 1 of 1 are left")
    await expect(untouched).to_have_count(2)
    await expect(used_up).to_have_count(0)

    # To look has taken nothing.
    assert await limited.ask() == 200
    await page.reload()
    await expect(used_up).to_have_count(1)
    await expect(untouched).to_have_count(1)
    spent = candidates.get_by_text("0 of 1 are left, all of it in")
    await expect(spent).to_have_count(1)
    await expect(page.locator(".notice.good")).to_be_visible()

    assert await limited.ask() == 200
    await page.reload()
    await expect(page.locator(".notice.bad")).to_contain_text("429")
    await expect(used_up).to_have_count(2)
    await expect(untouched).to_have_count(0)
    assert await limited.ask() == 429
