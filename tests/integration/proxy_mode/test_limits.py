"""Limits hold in proxy mode as well, and change no byte of what passes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.proxied import Fields, proxied
from relay_gateway.testing.raw_caller import RawAnswer, RawCaller
from relay_gateway.testing.script import response
from relay_gateway.testing.upstream import ScriptedUpstream

JSON = ("Content-Type", "application/json")
CREDENTIAL = ("Authorization", "Bearer sk-of-the-caller")
OK = response(200, b"3:5", [JSON])


def change(path: DataPath, kind: str, **spec: Any) -> None:
    for row in path.draft.rows:
        if row.kind == kind:
            row.spec.update(spec)
    path.publish()


def limit(path: DataPath, **rule: Any) -> None:
    spec = {"rules": [{"windowSeconds": 3600, "strategy": "session-window", **rule}]}
    rate_limit = path.draft.add("rate limit", "tight", spec)
    change(path, "relay key", rateLimitIds=[rate_limit])


async def ask(path: DataPath, body: bytes = b'{"model":"m"}', fields: Fields = ()) -> RawAnswer:
    request = proxied(path.relay_key, "POST", "/acme/v1/plain", [JSON, CREDENTIAL, *fields], body)
    async with RawCaller(path.port) as caller:
        return await caller.ask(request)


async def test_a_limit_refuses_what_is_too_much(path: DataPath, upstream: ScriptedUpstream) -> None:
    limit(path, meter="requests", amount=1)
    upstream.enqueue(OK)
    first, second = await ask(path), await ask(path)
    assert (first.status, second.status, len(upstream.ledger)) == (200, 429, 1)
    assert b"x-ratelimit-remaining-requests: 0\r\n" in first.head
    assert b"retry-after: 3" in second.head
    assert json.loads(second.body)["error"]["code"] == "rate_limit_exceeded"


async def test_tokens_are_settled_with_what_the_upstream_says(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    limit(path, meter="tokens", amount=60)
    upstream.enqueue(OK, OK)
    body = b'{"model":"m","max_tokens":40}'
    statuses = [(await ask(path, body)).status for _ in range(3)]
    assert statuses == [200, 200, 429]


async def test_what_the_upstream_says_of_its_own_limits_stands_alone(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    limit(path, meter="requests", amount=5)
    upstream.enqueue(response(200, b"3:5", [JSON, ("x-ratelimit-limit-requests", "900")]))
    answer = await ask(path)
    assert answer.head.lower().count(b"x-ratelimit-limit-requests") == 1
    assert b"x-ratelimit-limit-requests: 900\r\n" in answer.head


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"model":"m","max_tokens":51}', 400),
        (b'{"model":"m","max_tokens":50}', 200),
        (b'{"model":"m"}', 200),
    ],
)
async def test_the_maximum_of_a_policy_refuses_and_changes_nothing(
    path: DataPath, upstream: ScriptedUpstream, body: bytes, status: int
) -> None:
    change(path, "policy", maxOutputTokens=50)
    upstream.enqueue(OK)
    assert (await ask(path, body)).status == status
    assert [seen.body for seen in upstream.ledger] == ([body] if status == 200 else [])
