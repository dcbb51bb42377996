"""Bad input: the exact status and body in each wire format, recorded, and nothing sent upstream."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.scenario import Scenario, running_scenario
from relay_gateway.testing.script import Script, json_response

CHAT = "/v1/chat/completions"
MESSAGES = "/v1/messages"
UNKNOWN_KEY = "sk-relay-" + "0" * 43 + "IdRtx"


@dataclass(frozen=True, slots=True)
class Wrong:
    """A request, and how it is refused on the chat route and on the messages route."""

    name: str
    status: int
    code: str
    kind: str
    """``error.type`` on the messages route."""
    body: bytes = b'{"model":"good","messages":[]}'
    headers: dict[str, str] = field(default_factory=dict)
    key: str = "good"
    messages_status: int | None = None


WRONG = [
    Wrong("malformed JSON", 400, "invalid_request", "invalid_request_error", b"{"),
    Wrong("not an object", 400, "invalid_request", "invalid_request_error", b"[1]"),
    Wrong("no body", 400, "invalid_request", "invalid_request_error", b""),
    Wrong("missing model", 400, "invalid_request", "invalid_request_error", b"{}"),
    Wrong(
        "duplicate model",
        400,
        "ambiguous_body",
        "invalid_request_error",
        b'{"model":"good","model":"good"}',
    ),
    Wrong("number as model", 400, "invalid_request", "invalid_request_error", b'{"model":7}'),
    Wrong("unknown model", 404, "model_not_found", "not_found_error", b'{"model":"nobody"}'),
    Wrong(
        "model not granted",
        403,
        "model_not_allowed",
        "not_found_error",
        b'{"model":"denied"}',
        messages_status=404,
    ),
    Wrong("no key", 401, "invalid_api_key", "authentication_error", key=""),
    Wrong("mistyped key", 401, "invalid_api_key", "authentication_error", key="sk-relay-x"),
    Wrong("unknown key", 401, "invalid_api_key", "authentication_error", key=UNKNOWN_KEY),
    Wrong("revoked key", 401, "invalid_api_key", "authentication_error", key="revoked"),
    Wrong("expired key", 403, "key_expired", "permission_error", key="expired"),
    Wrong("key from elsewhere", 403, "address_not_allowed", "permission_error", key="elsewhere"),
    Wrong("oversized body", 413, "request_too_large", "request_too_large", b" " * 70_000),
    Wrong(
        "wrong content type",
        415,
        "unsupported_media_type",
        "invalid_request_error",
        headers={"content-type": "text/plain"},
    ),
    Wrong(
        "compressed body",
        415,
        "unsupported_media_type",
        "invalid_request_error",
        headers={"content-encoding": "gzip"},
    ),
    Wrong(
        "bad tags",
        400,
        "invalid_request",
        "invalid_request_error",
        headers={"x-relay-request-tags": "[1]"},
    ),
    Wrong(
        "unknown pinned host",
        400,
        "invalid_request",
        "invalid_request_error",
        headers={"x-svc-upstream-host": "nowhere"},
    ),
    Wrong(
        "bad deadline",
        400,
        "invalid_request",
        "invalid_request_error",
        headers={"x-relay-request-timeout": "soon"},
    ),
    Wrong(
        "proxy mode is off",
        403,
        "proxy_mode_disabled",
        "permission_error",
        headers={"x-svc-proxy-mode": "Proxy"},
    ),
    Wrong(
        "unknown proxy mode",
        400,
        "invalid_request",
        "invalid_request_error",
        headers={"x-svc-proxy-mode": "Sometimes"},
    ),
]


def never(request: SeenRequest) -> Script:
    """The upstream of requests that must not reach one."""
    return json_response(200, {})


@dataclass(slots=True)
class Refusing:
    """A scenario with relay keys of each sorry kind, by name."""

    scenario: Scenario
    keys: dict[str, str]
    client: httpx.AsyncClient

    async def send(self, path: str, wrong: Wrong) -> httpx.Response:
        """The request on the route ``path``."""
        headers = {"content-type": "application/json", **wrong.headers}
        key = self.keys.get(wrong.key, wrong.key)
        if key:
            headers["authorization"] = f"Bearer {key}"
        if path == MESSAGES:
            headers["anthropic-version"] = "2023-06-01"
        return await self.client.post(path, content=wrong.body, headers=headers)


@pytest.fixture
async def refusing(tmp_path: Path) -> AsyncIterator[Refusing]:
    environ = {"RELAY_MAX_REQUEST_BYTES": "65536", "ACME_API_KEY": f"sk-{secrets.token_hex(20)}"}
    async with running_scenario(tmp_path, never, environ) as scenario:
        provider = await scenario.create("providers", "Acme")
        policy = await scenario.create("policies", "Good", models=["good"])
        for adapter in ("openai", "anthropic"):
            host = await scenario.create(
                "hosts", adapter, baseUrl=scenario.upstream.url, adapter=adapter
            )
            await scenario.create(
                "host-keys",
                adapter,
                hostId=host,
                policyId=policy,
                valueFrom={"kind": "env", "env": "ACME_API_KEY"},
            )
        for name in ("good", "denied"):
            hosts = (await scenario.admin.get("/hosts")).json()["items"]
            wanted = [
                h["metadata"]["id"] for h in hosts if h["spec"]["baseUrl"] == scenario.upstream.url
            ]
            await scenario.create(
                "models",
                name,
                name=name,
                providerId=provider,
                bindings=[{"hostId": host_id} for host_id in wanted],
            )
        keys = {"good": await scenario.relay_key("good", policy)}
        keys["expired"] = await scenario.relay_key(
            "expired", policy, expiresAt="2020-01-01T00:00:00Z"
        )
        keys["elsewhere"] = await scenario.relay_key(
            "elsewhere", policy, allowedCidrs=["192.0.2.0/24"]
        )
        revoked = await scenario.post("relay-keys", "revoked", policyId=policy)
        keys["revoked"] = revoked["plaintext"]
        url = f"/relay-keys/by-id/{revoked['relayKey']['metadata']['id']}/revoke"
        assert (await scenario.admin.post(url)).status_code == 200
        async with httpx.AsyncClient(
            base_url=scenario.gateway.inference_url, trust_env=False
        ) as client:
            yield Refusing(scenario, keys, client)


async def test_every_kind_of_bad_input_is_refused_in_the_callers_format(
    refusing: Refusing,
) -> None:
    for wrong in WRONG:
        chat = await refusing.send(CHAT, wrong)
        assert chat.status_code == wrong.status, (wrong.name, chat.text)
        error = chat.json()["error"]
        assert set(error) == {"message", "type", "code", "param"}, wrong.name
        assert error["code"] == wrong.code, wrong.name
        await check_record(refusing, chat, wrong)

        message = await refusing.send(MESSAGES, wrong)
        status = wrong.messages_status or wrong.status
        assert message.status_code == status, (wrong.name, message.text)
        body = message.json()
        assert set(body) == {"type", "error", "request_id"}, wrong.name
        assert (body["type"], body["error"]["type"]) == ("error", wrong.kind), wrong.name
        assert body["request_id"] == message.headers["x-relay-request-id"]
        assert body["error"]["message"]
    assert refusing.scenario.upstream.ledger == []


async def check_record(refusing: Refusing, response: httpx.Response, wrong: Wrong) -> None:
    """The refusal is accounted for, with its code and without a cost."""
    record: dict[str, Any] = await refusing.scenario.log(response.headers["x-relay-request-id"])
    assert (record["outcome"], record["status"]) == ("rejected", wrong.status), wrong.name
    assert record["errorCode"] == wrong.code, wrong.name
    assert record["costNanos"] is None, wrong.name


async def test_unknown_paths_and_wrong_methods_have_exact_answers(refusing: Refusing) -> None:
    client = refusing.client
    unknown = await client.post("/v1/nothing", json={})
    assert unknown.status_code == 404
    assert unknown.json()["error"]["code"] == "unknown_endpoint"
    assert "POST /v1/chat/completions" in unknown.json()["error"]["message"]
    dialect = await client.get("/v1/nothing", headers={"anthropic-version": "2023-06-01"})
    assert dialect.json()["error"]["type"] == "not_found_error"

    wrong = await client.get(CHAT)
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
    assert wrong.json()["error"]["code"] == "method_not_allowed"
    assert (await client.post("/v1/models", json={})).status_code == 405
    assert (await client.get("/v1/models")).status_code == 401
    assert (await client.get("/hosts")).status_code == 404
    for path in ("/healthz", "/readyz"):
        assert (await client.get(path)).status_code == 200


async def test_a_secret_kind_that_is_not_installed_names_those_that_are(refusing: Refusing) -> None:
    admin = refusing.scenario.admin
    spec = {"valueFrom": {"kind": "carrier-pigeon", "nest": "x"}}
    answer = await admin.post("/host-keys", json={"metadata": {"displayName": "x"}, "spec": spec})
    assert answer.status_code == 422
    fields = {problem["field"]: problem for problem in answer.json()["error"]["fields"]}
    assert fields.keys() == {"spec.hostId", "spec.policyId", "spec.valueFrom.kind"}
    message = fields["spec.valueFrom.kind"]["message"]
    assert "env" in message
    assert "stored" in message


async def test_the_models_list_shows_only_what_the_key_may_use(refusing: Refusing) -> None:
    headers = {"authorization": f"Bearer {refusing.keys['good']}"}
    listed = (await refusing.client.get("/v1/models", headers=headers)).json()
    assert (listed["object"], [model["id"] for model in listed["data"]]) == ("list", ["good"])
    one = await refusing.client.get("/openai/v1/models/good", headers=headers)
    assert one.json()["id"] == "good"
    hidden = await refusing.client.get("/v1/models/denied", headers=headers)
    assert (hidden.status_code, hidden.json()["error"]["code"]) == (404, "model_not_found")
