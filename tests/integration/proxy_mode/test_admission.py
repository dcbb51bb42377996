"""Who may use proxy mode, and what they are told who may not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec.structs import replace

from relay_gateway.catalog.sections import ProxyMode
from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.proxied import Fields, proxied
from relay_gateway.testing.raw_caller import RawAnswer, RawCaller
from relay_gateway.testing.script import response
from relay_gateway.testing.upstream import ScriptedUpstream

JSON = ("Content-Type", "application/json")
CREDENTIAL = ("Authorization", "Bearer sk-of-the-caller")
BODY = b'{"model":"m"}'
PIN = ("X-Relay-Upstream-Host", "m")


async def ask(
    path: DataPath,
    fields: Fields = (CREDENTIAL,),
    *,
    key: bool = True,
    target: str = "/acme/v1/plain",
    body: bytes = BODY,
) -> RawAnswer:
    request = proxied(path.relay_key if key else None, "POST", target, [JSON, *fields], body)
    async with RawCaller(path.port) as caller:
        return await caller.ask(request)


def error_of(answer: RawAnswer) -> tuple[int, str]:
    return answer.status, json.loads(answer.body)["error"]["code"]


def row(path: DataPath, kind: str) -> dict[str, Any]:
    spec: dict[str, Any] = next(one for one in path.draft.rows if one.kind == kind).spec
    return spec


def anonymous(path: DataPath) -> None:
    section = ProxyMode(enabled=True, allow_unauthenticated=True)
    path.settings = replace(path.settings, proxy_mode=section)
    path.publish()


@pytest.mark.parametrize("name", ["Authorization", "x-api-key", "x-goog-api-key"])
async def test_the_callers_own_credential_goes_to_the_upstream_and_the_relay_key_does_not(
    path: DataPath, upstream: ScriptedUpstream, name: str
) -> None:
    upstream.enqueue(response(200, b"1:1", [JSON]))
    assert (await ask(path, [(name, "sk-of-the-caller")])).status == 200
    assert upstream.ledger[0].header(name) == "sk-of-the-caller"
    assert path.relay_key.encode() not in upstream.received
    assert b"sk-m" not in upstream.received  # the host key
    assert b"x-relay" not in upstream.received.lower()


async def test_answers_carry_the_id_of_the_request_and_the_host(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    date = ("Date", "Fri, 20 Nov 2026 12:00:00 GMT")
    upstream.enqueue(response(200, b"1:1", [JSON, date, ("X-Relay-Host", "forged")]))
    answer = await ask(path)
    assert answer.head.count(b"X-Relay-Host: ") == 1
    assert b"X-Relay-Host: m\r\n" in answer.head
    assert path.records[0].request_id.encode() in answer.head
    assert answer.head.count(b"Date: ") == 1
    assert b"Date: Fri, 20 Nov 2026 12:00:00 GMT\r\n" in answer.head


async def test_while_it_is_off_nobody_may_use_it(path: DataPath) -> None:
    path.settings = replace(path.settings, proxy_mode=ProxyMode())
    path.publish()
    assert error_of(await ask(path)) == (403, "proxy_mode_disabled")


async def test_a_policy_can_forbid_it(path: DataPath) -> None:
    row(path, "policy")["allowProxyMode"] = False
    path.publish()
    assert error_of(await ask(path)) == (403, "proxy_mode_disabled")


async def test_a_host_can_be_closed_to_it(path: DataPath) -> None:
    row(path, "host")["proxyMode"] = False
    path.publish()
    assert error_of(await ask(path)) == (403, "proxy_mode_disabled")
    assert error_of(await ask(path, [PIN], target="/v1/plain")) == (403, "proxy_mode_disabled")


async def test_a_model_that_is_not_granted_is_403(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    assert error_of(await ask(path, body=b'{"model":"x"}')) == (403, "model_not_allowed")
    assert path.records[0].outcome == "rejected"
    assert upstream.connections == []


async def test_a_relay_key_elsewhere_than_in_its_own_header_does_not_count(path: DataPath) -> None:
    bearer = ("Authorization", f"Bearer {path.relay_key}")
    assert error_of(await ask(path, [bearer], key=False)) == (401, "invalid_api_key")


async def test_t20_a_relay_key_beside_its_own_header_is_refused(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    bearer = ("Authorization", f"Bearer {path.relay_key}")
    assert error_of(await ask(path, [bearer])) == (400, "invalid_request")
    target = f"/acme/v1/plain?key={path.relay_key}"
    assert error_of(await ask(path, target=target)) == (400, "invalid_request")
    assert upstream.connections == []


@pytest.mark.parametrize("name", ["Authorization", "x-api-key", "X-Relay-API-Key"])
async def test_t21_a_credential_that_comes_twice_is_refused(path: DataPath, name: str) -> None:
    assert error_of(await ask(path, [(name, "a"), (name.lower(), "b")])) == (400, "duplicate_auth")


async def test_without_a_relay_key_it_is_401_unless_allowed(path: DataPath) -> None:
    assert error_of(await ask(path, key=False)) == (401, "invalid_api_key")


async def test_without_a_relay_key_the_host_must_be_pinned(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    anonymous(path)
    assert error_of(await ask(path, key=False)) == (400, "invalid_request")
    upstream.enqueue(response(200, b"1:1", [JSON]))
    answer = await ask(path, [CREDENTIAL, PIN], key=False, body=b'{"model":"unknown"}')
    assert answer.status == 200
    one = path.records[-1]
    assert (one.relay_key_id, one.requested_model, one.model_id) == (None, "unknown", None)
    assert one.tokens == {"input": 1, "output": 1}


async def test_without_a_relay_key_a_wrong_one_is_still_401(path: DataPath) -> None:
    anonymous(path)
    wrong = ("X-Relay-API-Key", "sk-relay-wrong")
    assert error_of(await ask(path, [PIN, wrong], key=False)) == (401, "invalid_api_key")
    bearer = ("Authorization", f"Bearer {path.relay_key}")
    assert error_of(await ask(path, [PIN, bearer], key=False)) == (401, "invalid_api_key")


@pytest.mark.parametrize("pin", ["http://127.0.0.1:1", "127.0.0.1", "nowhere"])
async def test_t03_a_header_cannot_introduce_an_address(path: DataPath, pin: str) -> None:
    assert error_of(await ask(path, [("X-Relay-Upstream-Host", pin)])) == (400, "invalid_request")


async def test_tags_and_the_clients_own_id_are_recorded(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(response(200, b"1:1", [JSON]))
    fields = [("X-Relay-Request-Tags", '{"team":"a"}'), ("X-Request-Id", "mine")]
    await ask(path, fields)
    one = path.records[0]
    assert (one.tags, one.client_request_id) == ({"team": "a"}, "mine")
    assert upstream.ledger[0].header("x-request-id") == "mine"


async def test_a_callers_deadline_is_kept(path: DataPath, upstream: ScriptedUpstream) -> None:
    upstream.early = True
    upstream.enqueue([])
    answer = await ask(path, [("X-Relay-Request-Timeout", "0.1")])
    assert error_of(answer) == (504, "upstream_timeout")
    assert path.records[0].outcome == "timeout"


async def test_a_redirect_is_the_callers_to_follow(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(response(307, b"", [("Location", "http://169.254.169.254/")]))
    answer = await ask(path)
    assert answer.status == 307
    assert len(upstream.ledger) == 1


async def test_a_reachability_probe_is_answered_by_the_gateway(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    async with RawCaller(path.port) as caller:
        for target in ("/acme", "/acme/"):
            caller.send(f"HEAD {target} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
            head = await caller.reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 OK\r\n")
            assert b"Content-Length: 0\r\n" in head
    path.settings = replace(path.settings, proxy_mode=ProxyMode())
    path.publish()
    async with RawCaller(path.port) as caller:
        caller.send(b"HEAD /acme HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await caller.reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 404")
    assert upstream.connections == []
    assert path.records == []


async def test_a_head_request_below_the_prefix_is_the_upstreams_to_answer(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(response(404, b"", [("X-Own", "1")]))
    async with RawCaller(path.port) as caller:
        caller.send(proxied(path.relay_key, "HEAD", "/acme/"))
        head = await caller.reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 404")
    assert b"X-Own: 1\r\n" in head
    assert upstream.ledger[0].target == "/"


async def test_a_websocket_upgrade_is_426(path: DataPath) -> None:
    fields = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Version", "13")]
    async with RawCaller(path.port) as caller:
        answer = await caller.ask(proxied(path.relay_key, "GET", "/acme/v1/responses", fields))
    assert answer.status == 426


async def test_gateway_mode_goes_on_beside_it_on_the_same_connection(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    async with RawCaller(path.port) as caller:
        for _ in range(2):
            upstream.enqueue(response(200, b"1:1", [JSON]), response(200, b"2:2", [JSON]))
            assert (await caller.ask(path.request("m"))).body == b"1:1"
            request = proxied(path.relay_key, "POST", "/acme/v1/plain", [JSON, CREDENTIAL], BODY)
            assert (await caller.ask(request)).body == b"2:2"
    assert [record.mode for record in path.records] == ["gateway", "proxy"] * 2
    keys = [seen.header("authorization") for seen in upstream.ledger]
    assert keys == ["Bearer sk-m", "Bearer sk-of-the-caller"] * 2
