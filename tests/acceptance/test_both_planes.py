"""The first whole slice: everything created by HTTP, then called by the official clients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import anthropic
import openai
import pytest

from relay_gateway.testing.postgres import PostgresServer
from relay_gateway.testing.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Catalog:
    """Ids of what was created, and the relay key that may use it."""

    provider: str
    chat_host: str
    message_host: str
    pricing: str
    chat_model: str
    policy: str
    env_key: str
    relay_key: str


@pytest.fixture
async def catalog(scenario: Scenario) -> Catalog:
    """One model at each of two hosts, one host key from the environment and one stored."""
    provider = await scenario.create("providers", "Acme")
    url = scenario.upstream.url
    chat_host = await scenario.create("hosts", "Acme chat", baseUrl=f"{url}/v1", adapter="openai")
    message_host = await scenario.create("hosts", "Acme messages", baseUrl=url, adapter="anthropic")
    rates = [
        {"meter": "tokens.input", "amount": "2.5"},
        {"meter": "tokens.cacheRead", "amount": "0.5"},
        {"meter": "tokens.output", "amount": "10"},
    ]
    pricing = await scenario.create("pricings", "Acme prices", rates=rates)
    binding = {"hostId": chat_host, "pricingId": pricing, "upstreamName": "real-chat"}
    chat_model = await scenario.create(
        "models", "Chat", name="acme-chat", providerId=provider, bindings=[binding]
    )
    for name, host in (("acme-embed", chat_host), ("acme-claude", message_host)):
        bindings = [{"hostId": host, "pricingId": pricing}]
        await scenario.create("models", name, name=name, providerId=provider, bindings=bindings)
    policy = await scenario.create("policies", "Everything", models=["acme"])
    value_from = {"kind": "env", "env": "ACME_API_KEY"}
    env_key = await scenario.create(
        "host-keys", "From env", hostId=chat_host, policyId=policy, valueFrom=value_from
    )
    stored = {"kind": "stored", "value": scenario.canary.secret("stored key", prefix="sk-ant-")}
    await scenario.create(
        "host-keys", "Stored", hostId=message_host, policyId=policy, valueFrom=stored
    )
    relay_key = await scenario.relay_key("app", policy, tags={"team": "search"})
    return Catalog(
        provider, chat_host, message_host, pricing, chat_model, policy, env_key, relay_key
    )


def chat_client(scenario: Scenario, catalog: Catalog) -> openai.AsyncOpenAI:
    url = f"{scenario.gateway.inference_url}/v1"
    return openai.AsyncOpenAI(base_url=url, api_key=catalog.relay_key, max_retries=0)


def message_client(scenario: Scenario, catalog: Catalog) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(
        base_url=scenario.gateway.inference_url, api_key=catalog.relay_key, max_retries=0
    )


async def test_the_official_clients_get_their_answers_and_every_request_is_accounted_for(
    scenario: Scenario,
    catalog: Catalog,
    database: dict[str, str],
    request: pytest.FixtureRequest,
) -> None:
    said: Any = [{"role": "user", "content": "Hi"}]
    async with chat_client(scenario, catalog) as client:
        raw = await client.chat.completions.with_raw_response.create(
            model="acme-chat",
            messages=said,
        )
        assert raw.parse().choices[0].message.content == "Hello there"
        chat_id = raw.headers["x-relay-request-id"]

        stream = await client.chat.completions.create(
            model="acme-chat",
            messages=said,
            stream=True,
        )
        stream_id = stream.response.headers["x-relay-request-id"]
        chunks = [chunk async for chunk in stream]
        text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        assert (text, {chunk.usage for chunk in chunks}) == ("Hello there", {None})

        embedded = await client.embeddings.create(model="acme-embed", input="Hi")
        assert embedded.data[0].embedding == [1.0, 0.0]

        response = await client.responses.create(model="acme-chat", input="Hi")
        assert response.output_text == "Hello there"
        events = await client.responses.create(model="acme-chat", input="Hi", stream=True)
        kinds = [event.type async for event in events]
        assert kinds[-1] == "response.completed"
        completion = await client.completions.create(model="acme-chat", prompt="Hi")
        assert completion.choices[0].text == "Hello"
        names = {model.id async for model in client.models.list()}
        assert names == {"acme-chat", "acme-embed", "acme-claude"}

    async with message_client(scenario, catalog) as messages:
        message = await messages.messages.create(
            model="acme-claude",
            max_tokens=16,
            messages=said,
        )
        assert message.content[0].to_dict()["text"] == "Hello there"
        async with messages.messages.stream(
            model="acme-claude",
            max_tokens=16,
            messages=said,
        ) as parts:
            assert "".join([part async for part in parts.text_stream]) == "Hello there"
            message_id = parts.response.headers["x-relay-request-id"]
        counted = await messages.messages.count_tokens(
            model="acme-claude",
            messages=said,
        )
        assert counted.input_tokens == 12
        listed = await messages.models.list()
        assert {model.id for model in listed.data} == names

    await check_records(scenario, catalog, (chat_id, stream_id), message_id)
    check_ledger(scenario, catalog)
    await scenario.sweep(dump_of(database, request))


def dump_of(database: dict[str, str], request: pytest.FixtureRequest) -> str:
    """Everything that lies in the PostgreSQL database; SQLite's files are searched anyway."""
    if not database:
        return ""
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.dump(database["RELAY_DATABASE_URL"])


async def check_records(
    scenario: Scenario, catalog: Catalog, chat_ids: tuple[str, str], message_id: str
) -> None:
    """Tokens, cost, timing and ids of a chat, a stream and a message."""
    for request_id in chat_ids:
        record = await scenario.log(request_id)
        tokens = {meter: count for meter, count in record["tokens"].items() if count}
        assert tokens == {"input": 12, "cacheRead": 2, "output": 4}
        assert record["costNanos"] == 10 * 2_500 + 2 * 500 + 4 * 10_000
        assert (record["currency"], record["unpriced"]) == ("USD", False)
        assert (record["outcome"], record["status"]) == ("ok", 200)
        assert record["usageSource"] == "upstream"
        ids = {name: record[f"{name}Id"] for name in ("provider", "model", "host", "hostKey")}
        assert ids == {
            "provider": catalog.provider,
            "model": catalog.chat_model,
            "host": catalog.chat_host,
            "hostKey": catalog.env_key,
        }
        assert record["policyId"] == catalog.policy
        assert record["pricingId"] == catalog.pricing
        assert record["pricingVersion"] == 1
        assert record["tags"] == {"team": "search"}
        assert record["upstreamModel"] == "upstream-model-2026"
        assert 0 < record["ttfbMs"] <= record["durationMs"]
        assert 0 <= record["overheadMs"] <= record["durationMs"]
        assert record["streamed"] is (request_id == chat_ids[1])
    assert (await scenario.log(chat_ids[1]))["ttftMs"] > 0
    record = await scenario.log(message_id)
    assert (record["tokens"]["input"], record["tokens"]["output"]) == (12, 5)
    assert record["endpoint"] == "messages"

    logs = await scenario.logs(9)
    assert len(logs) == 9
    assert {item["relayKeyId"] for item in logs} == {logs[0]["relayKeyId"]}
    summary = await scenario.admin.get("/usage/summary", params={"groupBy": "model"})
    assert summary.status_code == 200
    assert sum(row["requests"] for row in summary.json()["items"]) == 9


def check_ledger(scenario: Scenario, catalog: Catalog) -> None:
    """The upstream saw the host keys where they belong and never the relay key."""
    assert catalog.relay_key.encode() not in scenario.upstream.received
    env_key = scenario.canary.secret("env host key")
    stored = scenario.canary.secret("stored key")
    for request in scenario.upstream.ledger:
        if request.target.startswith("/v1/messages"):
            assert request.header("x-api-key") == stored
            assert request.header("authorization") is None
        else:
            assert request.header("authorization") == f"Bearer {env_key}"
        assert request.header_values("host") == [f"127.0.0.1:{scenario.upstream.port}"]
    chats = [r for r in scenario.upstream.ledger if r.target == "/v1/chat/completions"]
    assert {request.json()["model"] for request in chats} == {"real-chat"}
