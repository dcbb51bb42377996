"""The official clients with credentials of their own, through proxy mode."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import anthropic
import openai
import pytest

from relay_gateway.testing.scenario import Scenario

SECONDS = 5.0
PRICES = [{"meter": "tokens.input", "amount": "2"}, {"meter": "tokens.output", "amount": "10"}]


@dataclass(frozen=True, slots=True)
class Agents:
    """Both clients, with credentials that the gateway does not know."""

    scenario: Scenario
    credential: str
    headers: dict[str, str]

    def messages(self) -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(
            base_url=f"{self.scenario.gateway.inference_url}/anthropic",
            api_key=self.credential,
            default_headers=self.headers,
            max_retries=0,
        )

    def chat(self) -> openai.AsyncOpenAI:
        return openai.AsyncOpenAI(
            base_url=f"{self.scenario.gateway.inference_url}/openai/v1",
            api_key=self.credential,
            default_headers=self.headers,
            max_retries=0,
        )


@pytest.fixture
def database() -> dict[str, str]:
    """SQLite alone: which database it is makes no difference here."""
    return {}


@pytest.fixture
async def agents(scenario: Scenario) -> Agents:
    """Two hosts at a prefix each, without any host key."""
    provider = await scenario.create("providers", "Acme")
    pricing = await scenario.create("pricings", "Prices", rates=PRICES)
    url = scenario.upstream.url
    for adapter, base, names in (
        ("anthropic", url, ["claude-large", "claude-small"]),
        ("openai", f"{url}/v1", ["gpt-large"]),
    ):
        host = await scenario.create(
            "hosts", adapter, baseUrl=base, adapter=adapter, pathPrefix=adapter
        )
        bindings = [{"hostId": host, "pricingId": pricing}]
        for name in names:
            await scenario.create("models", name, name=name, providerId=provider, bindings=bindings)
    policy = await scenario.create("policies", "Agents", models=["claude-large", "gpt-large"])
    relay_key = await scenario.relay_key("agent", policy)
    headers = {
        "X-Relay-API-Key": relay_key,
        "X-Relay-Proxy-Mode": "Proxy",
        "X-Relay-Request-Tags": '{"repository":"a"}',
    }
    agents = Agents(scenario, scenario.canary.secret("own credential", prefix="sk-ant-"), headers)
    await enable(agents)
    return agents


async def enable(agents: Agents) -> None:
    """Turns proxy mode on, and waits until it is."""
    answer = await agents.scenario.admin.put("/settings/proxy-mode", json={"enabled": True})
    assert answer.status_code == 200
    deadline = asyncio.get_running_loop().time() + SECONDS
    async with agents.messages() as client:
        while True:
            try:
                await client.messages.count_tokens(model="claude-large", messages=[])
            except anthropic.PermissionDeniedError:
                assert asyncio.get_running_loop().time() < deadline
                await asyncio.sleep(0.02)
            else:
                agents.scenario.upstream.ledger.clear()
                return


async def test_the_anthropic_client_works_with_its_own_credential(agents: Agents) -> None:
    scenario, prompt = agents.scenario, [{"role": "user", "content": "Hello"}]
    async with agents.messages() as client:
        message = await client.messages.with_raw_response.create(
            model="claude-large",
            max_tokens=9,
            messages=prompt,  # type: ignore[arg-type]  # a plain dictionary is what it becomes
        )
        async with client.messages.stream(
            model="claude-large",
            max_tokens=9,
            messages=prompt,  # type: ignore[arg-type]  # the same
        ) as stream:
            assert await stream.get_final_text() == "Hello there"
        with pytest.raises(anthropic.NotFoundError, match="claude-small"):
            await client.messages.create(
                model="claude-small",
                max_tokens=9,
                messages=prompt,  # type: ignore[arg-type]  # the same
            )
    assert (await message.parse()).usage.input_tokens == 9
    for seen in scenario.upstream.ledger:
        sent = (seen.header("x-api-key"), seen.header("authorization"))
        assert sent in ((agents.credential, None), (None, f"Bearer {agents.credential}"))
    assert len(scenario.upstream.ledger) == 2
    record = await scenario.log(message.headers["x-relay-request-id"])
    assert (record["mode"], record["outcome"], record["tags"]) == (
        "proxy",
        "ok",
        {"repository": "a"},
    )
    assert record["tokens"] == {"input": 12, "cacheRead": 3, "cacheWrite": 0, "output": 5}
    assert record["costNanos"] == 12 * 2000 + 5 * 10_000
    assert record["requestedModel"] == "claude-large"
    assert record["hostKeyId"] is None
    await scenario.sweep()


async def test_the_openai_client_works_with_its_own_credential(agents: Agents) -> None:
    scenario = agents.scenario
    async with agents.chat() as client:
        answer = await client.chat.completions.with_raw_response.create(
            model="gpt-large", messages=[{"role": "user", "content": "Hello"}]
        )
        stream = await client.responses.create(model="gpt-large", input="Hello", stream=True)
        kinds = [event.type async for event in stream]
        with pytest.raises(openai.PermissionDeniedError, match="claude-large"):
            await client.responses.create(model="claude-large", input="Hello")
        with pytest.raises(openai.NotFoundError, match="/v1/models"):
            await client.models.list()
    assert answer.parse().choices[0].message.content == "Hello there"
    assert kinds[-1] == "response.completed"
    seen = scenario.upstream.ledger
    assert [one.target for one in seen] == ["/v1/chat/completions", "/v1/responses", "/v1/models"]
    assert {one.header("authorization") for one in seen} == {f"Bearer {agents.credential}"}
    record = await scenario.log(answer.headers["x-relay-request-id"])
    assert (record["mode"], record["wireFormat"], record["streamed"]) == (
        "proxy",
        "openai.chat",
        False,
    )
    assert record["tokens"]["input"] == 12
    streamed = await scenario.log(stream.response.headers["x-relay-request-id"])
    assert (streamed["endpoint"], streamed["streamed"]) == ("responses", True)
    assert (streamed["outcome"], streamed["tokens"]["reasoning"]) == ("ok", 2)
    await scenario.sweep()
