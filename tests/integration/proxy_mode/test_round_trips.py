"""What a caller sends in proxy mode reaches the upstream, and the other way round, as it was."""

from __future__ import annotations

import pytest

from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.proxied import proxied
from relay_gateway.testing.raw_caller import RawCaller
from relay_gateway.testing.script import response
from relay_gateway.testing.upstream import ScriptedUpstream

JSON = ("Content-Type", "application/json")
BODY = b'{"model": "m",  "stream":false , "x":[1, 2.50e1]}'


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_t71_a_request_arrives_as_it_was_sent(
    path: DataPath, upstream: ScriptedUpstream, method: str
) -> None:
    upstream.enqueue(response(200, b"3:5", [("Content-Type", "application/json"), ("X-Odd", "ä")]))
    fields = [("aUTHORIZATION", "Bearer sk-mine"), ("x-dup", "1"), JSON, ("X-Dup", "2")]
    request = proxied(path.relay_key, method, "/acme/v1/plain?beta=true&a=%20b", fields, BODY)
    async with RawCaller(path.port) as caller:
        answer = await caller.ask(request)
    seen = upstream.ledger[0]
    assert (answer.status, answer.body) == (200, b"3:5")
    assert (seen.method, seen.target, seen.body) == (method, "/v1/plain?beta=true&a=%20b", BODY)
    assert seen.headers == (
        (b"Host", f"127.0.0.1:{upstream.port}".encode()),
        (b"aUTHORIZATION", b"Bearer sk-mine"),
        (b"x-dup", b"1"),
        (b"Content-Type", b"application/json"),
        (b"X-Dup", b"2"),
        (b"Content-Length", str(len(BODY)).encode()),
    )


async def test_a_large_body_streams(path: DataPath, upstream: ScriptedUpstream) -> None:
    upstream.enqueue(response(200, b"3:5", [("Content-Type", "application/json")]))
    body = b'{"text": "' + b"x" * 20_000_000 + b'", "model":"m"}'
    async with RawCaller(path.port) as caller:
        answer = await caller.ask(proxied(path.relay_key, "POST", "/acme/v1/plain", [JSON], body))
    assert (answer.status, answer.body) == (200, b"3:5")
    assert upstream.ledger[0].body == body
    record = path.records[0]
    assert (record.mode, record.endpoint, record.requested_model) == ("proxy", "chat", "m")
    assert record.tokens == {"input": 3, "output": 5}
    assert record.bytes_in == len(body)
