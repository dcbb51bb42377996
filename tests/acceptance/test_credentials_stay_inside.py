"""Credentials in queries, hashes of keys, and the files of a database: none of them tells any."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from relay_gateway.security.relay_keys import mint_relay_key
from relay_gateway.testing.canary import Canary, assert_absent
from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.postgres import PostgresServer
from relay_gateway.testing.scenario import Scenario, running_scenario
from relay_gateway.testing.script import Script, json_response

ASKED = "/v1beta/models/m:generateContent"
BODY = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}


def refused(request: SeenRequest) -> Script:
    """A refusal as some gateways word it: with the hash of the key that they got."""
    key = request.header("x-goog-api-key") or ""
    hashed = hashlib.sha256(key.encode()).hexdigest()
    message = f"Invalid token passed. Received {key[:4]}...{key[-4:]}, Key Hash (Token) = {hashed}"
    return json_response(401, {"error": {"message": message, "code": 401}})


@pytest.fixture
async def world(tmp_path: Path, postgres_url: str) -> AsyncIterator[Scenario]:
    """One host of the Gemini API that refuses whatever key it gets, on PostgreSQL."""
    canary = Canary()
    master_key = base64.b64encode(secrets.token_bytes(32)).decode()
    environ = {
        "RELAY_DATABASE_URL": postgres_url,
        "RELAY_ADMIN_TOKEN": canary.secret("admin token"),
        "RELAY_MASTER_KEY": canary.adopt("master key", master_key),
    }
    async with running_scenario(tmp_path, refused, environ, canary) as scenario:
        provider = await scenario.create("providers", "Acme")
        url = scenario.upstream.url
        host = await scenario.create(
            "hosts", "Acme", baseUrl=url, adapter="gemini", pathPrefix="gemini"
        )
        bindings = [{"hostId": host}]
        await scenario.create("models", "m", name="m", providerId=provider, bindings=bindings)
        policy = await scenario.create("policies", "All", models=["*"])
        secret = scenario.canary.secret("host key", prefix="AIza")
        stored = {"kind": "stored", "value": secret}
        await scenario.create("host-keys", "K", hostId=host, policyId=policy, valueFrom=stored)
        hashed = hashlib.sha256(secret.encode()).hexdigest()
        scenario.canary.adopt("hash of the host key", hashed)
        yield scenario


async def ask(
    scenario: Scenario, path: str, **headers: str
) -> tuple[httpx.Response, dict[str, object]]:
    async with httpx.AsyncClient(
        base_url=scenario.gateway.inference_url, trust_env=False
    ) as client:
        answer = await client.post(path, json=BODY, headers=headers)
    return answer, await scenario.log(answer.headers["x-relay-request-id"])


async def test_t10_t16_neither_a_query_nor_the_hash_of_a_key_is_told_to_anybody(
    world: Scenario,
) -> None:
    relay_key = await world.relay_key("app", await world.create("policies", "P", models=["*"]))
    enabled = await world.admin.put("/settings/proxy-mode", json={"enabled": True})
    assert enabled.status_code == 200
    query = f"key={world.canary.secret('key in a query', prefix='AIza')}"
    answer, record = await ask(world, f"{ASKED}?{query}", **{"x-goog-api-key": relay_key})
    assert answer.status_code == 502
    assert answer.json()["error"]["message"].startswith("the upstream refused every credential")
    # What went wrong is in the record, and what was asked for in no part of it.
    assert record["outcome"] == "upstream_error"
    assert "key=" not in world.upstream.ledger[0].target
    proxied = {"x-relay-api-key": relay_key, "x-relay-proxy-mode": "Proxy"}
    passed, other = await ask(world, f"/gemini{ASKED}?{query}", **proxied)
    # There the query is the caller's business, and goes where it was sent to, but no further.
    assert passed.status_code == 401, passed.text
    assert query in world.upstream.ledger[-1].target
    await world.sweep(answer.text, str(answer.headers), str(record), passed.text, str(other))


async def test_t16_an_unknown_key_is_told_by_nothing_that_could_be_looked_up(
    world: Scenario,
) -> None:
    unknown = mint_relay_key().plaintext.reveal()
    world.canary.adopt("unknown key", unknown, public=16)
    hashed = hashlib.sha256(unknown.encode()).hexdigest()
    world.canary.adopt("hash of the unknown key", hashed)
    answer, record = await ask(world, ASKED, **{"x-goog-api-key": unknown})
    assert answer.status_code == 401
    assert record["outcome"] == "rejected"
    await world.sweep(answer.text, str(answer.headers), str(record))


async def test_t64_neither_tables_nor_the_write_ahead_log_have_a_credential(
    world: Scenario, postgres_server: PostgresServer, postgres_url: str
) -> None:
    relay_key = await world.relay_key("app", await world.create("policies", "P", models=["*"]))
    await ask(world, ASKED, **{"x-goog-api-key": relay_key})
    await world.gateway.stop()
    written = Canary()
    written.adopt("row", "a-row-to-be-found-in-the-log")
    postgres_server.execute(
        "CREATE TABLE seen AS SELECT 'a-row-to-be-found-in-the-log'; CHECKPOINT", url=postgres_url
    )
    files = [postgres_server.data / "pg_wal", postgres_server.data / "base"]
    with pytest.raises(AssertionError, match="pg_wal"):
        assert_absent(written, paths=files)
    assert_absent(world.canary, paths=files)
    assert_absent(world.canary, texts={"pg_dump": postgres_server.dump(postgres_url)})
