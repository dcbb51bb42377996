"""What is shown of an upstream's error never has the credential in it."""

from __future__ import annotations

import gzip
import html
import json
import zlib
from pathlib import Path

import pytest

from relay_gateway.http.message import Headers
from relay_gateway.pipeline.error_answers import shown_error
from relay_gateway.plugin import FAILED
from relay_gateway.secret import Secret
from relay_gateway.testing.catalog import PlainMeter
from relay_gateway.testing.world import PipelineWorld, json_answer, open_stream

KEY = "sk-proj-Ab3dEfGhIjKlMnOpQrStUvWxYz0123456789"
ECHOES = [
    f"Incorrect API key provided: {KEY}.".encode(),
    json.dumps({"error": {"message": f"bad key {KEY}", "headers": [f"Bearer {KEY}"]}}).encode(),
    html.escape(f'<p title="{KEY}">401</p>').encode(),
    f"Incorrect API key provided: {KEY[:12]}****{KEY[-4:]}.".encode(),
    f"key …{KEY[-8:]} has no access, {KEY[8:16]}".encode(),
    b"\xff\xfe" + KEY.encode() + b"\x80",
]


def assert_silent(*shown: bytes) -> None:
    for text in shown:
        assert KEY[8:16].encode() not in text
        assert KEY[-8:].encode() not in text
        assert KEY[-4:].encode() not in text


@pytest.fixture
def world(tmp_path: Path) -> PipelineWorld:
    world = PipelineWorld(tmp_path)
    world.backend.table.update(dict.fromkeys(("k1", "k2", "k3"), KEY))
    return world


@pytest.mark.parametrize("status", [400, 403, 404, 422])
@pytest.mark.parametrize("echo", ECHOES)
async def test_t09_an_error_that_echoes_the_credential_is_shown_without_it(
    world: PipelineWorld, echo: bytes, status: int
) -> None:
    caller = world.caller()
    others = [json_answer(status, echo) for _ in range(2)] if status == 403 else []
    await world.run(caller, json_answer(status, echo, retry_after=KEY), *others)
    assert_silent(caller.body, caller.header_block)
    assert b"***" in caller.body + caller.header_block or status == 403


async def test_an_error_without_it_is_shown_byte_for_byte(world: PipelineWorld) -> None:
    caller = world.caller()
    body = b"\xff\xfe not text at all ... \x80" + "…".encode()
    await world.run(caller, json_answer(400, body))
    assert caller.body == body


@pytest.mark.parametrize(
    ("encoding", "encode"), [("gzip", gzip.compress), ("deflate", zlib.compress)]
)
@pytest.mark.parametrize("echo", ECHOES[:3])
async def test_t09_a_compressed_echo_is_looked_into(
    world: PipelineWorld, encoding: str, encode: type[bytes], echo: bytes
) -> None:
    caller = world.caller()
    await world.run(caller, json_answer(400, encode(echo), content_encoding=encoding))
    assert_silent(caller.body)
    assert b"***" in caller.body
    assert b"content-encoding" not in caller.header_block.lower()


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("x-unknown", KEY.encode()),
        ("gzip", KEY.encode()),
        ("gzip, br", gzip.compress(KEY.encode(), mtime=0)),
    ],
)
async def test_t09_what_cannot_be_looked_into_is_not_shown(
    world: PipelineWorld, encoding: str, body: bytes
) -> None:
    caller = world.caller()
    record = await world.run(caller, json_answer(400, body, content_encoding=encoding))
    assert (caller.status, record.status) == (400, 400)
    assert json.loads(caller.body)["error"]["code"] == "upstream_error"
    assert_silent(caller.body, caller.header_block)


async def test_t09_an_error_as_the_first_event_of_a_stream_is_shown_without_it(
    world: PipelineWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PlainMeter, "event", lambda *_: FAILED)
    replies = [open_stream() for _ in range(3)]
    for reply in replies:
        reply.push(b'data: {"error":{"message":"bad key %b"}}\n\n' % KEY.encode())
        reply.end()
    caller = world.caller(b'{"model":"m","stream":true}')
    await world.run(caller, *replies)
    assert (caller.status, json.loads(caller.body)["error"]["message"]) == (502, "bad key ***")
    assert_silent(caller.body, caller.header_block)


def test_t09_headers_are_scrubbed_only_where_they_have_it() -> None:
    clean = Headers([(b"Retry-After", b"5")])
    assert shown_error(clean, b"", Secret(KEY)).headers is clean
    fields = [(b"X-Request-Id", b"r"), (b"WWW-Authenticate", f"Bearer {KEY}".encode())]
    scrubbed = shown_error(Headers(fields), b"", Secret(KEY)).headers
    assert scrubbed.fields == [(b"X-Request-Id", b"r"), (b"WWW-Authenticate", b"Bearer ***")]
