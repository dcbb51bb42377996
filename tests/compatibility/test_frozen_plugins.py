"""Plugins of other people, as they were once written, at work in today's gateway."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.testing.gateway_app import GatewayApp
from relay_gateway.testing.installed import PluginSite
from relay_gateway.testing.script import json_response, sse_event, sse_response

FROZEN = Path(__file__).parent / "frozen"
DIGESTS = {
    "log": "86384420b5ea11c3df748e26ea40810aa4a8091c7c02d2f7f88ad02a26dcbfa5",
    "payloads": "bc49b000aed1fafeee58e3e5dfee3cfda7ba72b0e40405bd170b2b6e53b5ed1c",
    "provider": "612b55f506675d7476568bb3ef0d4873f52ba4da73ee5247db67e74b320e8cae",
    "secret": "2b9717efd0dae2694d880091691ee91cfbd959ef37de1bb67e61a32df7c87629",
    "state": "8a20c88f1544d08bb218d6f0e73d640d95f974db046bc20e69779a6a8bde4c8d",
}
KINDS = {
    "secret backend", "upstream provider", "usage sink", "payload logger", "state store",
}  # fmt: skip
CREDENTIAL = "made-up-0123456789"
ANSWER: dict[str, Any] = {
    "id": "a1",
    "model": "large-1",
    "parts": [{"type": "text", "text": "Sunny."}],
    "stop": "end",
    "usage": {"read": 30, "written": 12},
}
EVENTS: tuple[dict[str, Any], ...] = (
    {"type": "start", "id": "a1", "model": "large-1"},
    {"type": "open", "number": 0, "part": {"type": "text"}},
    {"type": "more", "number": 0, "text": "Sunny."},
    {"type": "close", "number": 0},
    {"type": "end", "stop": "end", "usage": {"read": 30, "written": 12}},
)
NATIVE = {"model": "large", "turns": [{"role": "user", "parts": [{"type": "text", "text": "Hi"}]}]}
FOREIGN = {"model": "large", "messages": [{"role": "user", "content": "Hi"}]}


def digest(distribution: Path) -> str:
    """Of the names and the contents of all files."""
    seen = hashlib.sha256()
    for path in sorted(distribution.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            content = hashlib.sha256(path.read_bytes()).hexdigest()
            seen.update(f"{path.relative_to(distribution).as_posix()} {content}\n".encode())
    return seen.hexdigest()


@pytest.fixture
async def app(frozen_site: PluginSite, tmp_path: Path) -> AsyncIterator[GatewayApp]:
    """A gateway in which the frozen plugins do everything that a plugin can do."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "host").write_text(f"{CREDENTIAL}\n", "utf-8")
    text = (
        'state_url = "meridian://"\n'
        '[usage_logging]\nsinks = ["database", "meridian"]\n'
        '[usage_sinks.meridian]\nfile = "usage.sqlite3"\n'
        '[payload_loggers.meridian]\nfile = "payloads.sqlite3"\n'
        f'[secret_backends.meridian]\ndirectory = "{tmp_path / "secrets"}"\n'
    )
    environ = {"PYTHONPATH": str(frozen_site.directory)}
    async with GatewayApp(tmp_path, text, environ) as app:
        logging = {"enabled": True, "loggers": ["meridian"]}
        answer = await app.admin.put("/settings/payload-logging", json=logging)
        assert answer.status_code == 200, answer.text
        yield app


async def limited_key(app: GatewayApp, requests: int) -> str:
    """A relay key for so many requests, whose payloads are kept."""
    rules = [{"meter": "requests", "amount": requests, "windowSeconds": 3600}]
    limit = await app.create("rate-limits", "few", rules=rules)
    policy = await app.create(
        "policies", "few", models=["*"], rateLimits=[{"rateLimitId": limit}], payloadLogging=True
    )
    body = {"metadata": {"displayName": "few"}, "spec": {"policyId": policy}}
    answer = await app.admin.post("/relay-keys", json=body)
    assert answer.status_code == 201, answer.text
    return str(answer.json()["plaintext"])


def test_they_are_as_they_were_written() -> None:
    found = {path.parent.name: digest(path.parent) for path in FROZEN.glob("*/pyproject.toml")}
    assert found == DIGESTS, "frozen means frozen: let the core accept them as they are"


async def test_todays_gateway_takes_every_kind_of_them(app: GatewayApp) -> None:
    items = (await app.admin.get("/plugins")).json()["items"]
    frozen = {one["kind"]: one for one in items if one["name"] == "meridian"}
    assert set(frozen) == KINDS
    assert {one["state"] for one in frozen.values()} <= {"open", "configured"}
    assert [one["error"] for one in frozen.values() if one["error"]] == []


async def test_a_request_goes_through_all_of_them(app: GatewayApp, tmp_path: Path) -> None:
    await app.serve(
        "large",
        adapter="meridian",
        wire_formats=["meridian.talk"],
        upstream_model="large-1",
        value_from={"kind": "meridian", "file": "host"},
        adapter_config={"tenant": "t1"},
    )
    key = {"authorization": f"Bearer {await limited_key(app, 3)}"}
    app.upstream.enqueue(
        json_response(200, ANSWER), sse_response(map(sse_event, EVENTS)), json_response(200, ANSWER)
    )
    native = await app.post("/v1/meridian/talk", NATIVE, key)
    assert (native.status_code, native.json()) == (200, ANSWER)
    streamed = await app.post("/v1/chat/completions", {**FOREIGN, "stream": True}, key)
    assert "Sunny." in streamed.text
    whole = await app.post("/v1/chat/completions", FOREIGN, key)
    assert whole.json()["choices"][0]["message"]["content"] == "Sunny."
    refused = await app.post("/v1/chat/completions", FOREIGN, key)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    for seen in app.upstream.ledger:
        assert (b"authorization", f"Bearer {CREDENTIAL}".encode()) in seen.headers
        assert (b"meridian-tenant", b"t1") in seen.headers
        assert json.loads(seen.body)["model"] == "large-1"
    await kept(app, [answer.headers["x-relay-request-id"] for answer in (native, streamed, whole)])


async def kept(app: GatewayApp, request_ids: list[str]) -> None:
    """What became of answered requests: a record in both sinks, a payload that is read back."""
    for request_id in request_ids:
        record = await app.log(request_id)
        assert record["tokens"] == {"input": 30, "output": 12}, str(record)
        found = (await app.admin.get(f"/logs/{request_id}")).json()
        assert "Hi" in found["payload"]["request"]
        assert "Sunny." in found["payload"]["response"]
    await app.gateway.stop()
    with sqlite3.connect(app.gateway.data_dir / "meridian" / "usage.sqlite3") as connection:
        rows = dict(connection.execute("SELECT id, record FROM records"))
    assert set(request_ids) < set(rows)
    assert json.loads(rows[request_ids[0]])["status"] == 200
