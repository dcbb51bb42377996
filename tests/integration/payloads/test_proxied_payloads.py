"""Payloads of requests in proxy mode, over real sockets: any size, any encoding, any content."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import zlib

import pytest

from relay_gateway.plugin import PayloadRecord
from relay_gateway.testing.canary import Canary, assert_absent
from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.proxied import proxied
from relay_gateway.testing.raw_caller import RawAnswer, RawCaller
from relay_gateway.testing.script import Hang, Send, chunk, head, response
from relay_gateway.testing.upstream import ScriptedUpstream

from .conftest import MakePath

JSON = ("Content-Type", "application/json")
OK = response(200, b"3:5", [JSON])
MIB = 1024 * 1024
STREAM = b"data: one\n\ndata: usage 3:5\n\ndata: end\n\n"


async def exchange(path: DataPath, request: bytes) -> tuple[RawAnswer, PayloadRecord]:
    """The answer to ``request``, and the payload."""
    async with RawCaller(path.port) as caller:
        answer = await caller.ask(request)
    await path.until_captured()
    assert len(path.payload_records) == 1
    return answer, path.payload_records[0]


def form(path: DataPath, file: bytes) -> bytes:
    """A form with the field ``model``, a text and a file."""
    lines = [
        b'--X\r\nContent-Disposition: form-data; name="model"\r\n\r\nm',
        b'--X\r\nContent-Disposition: form-data; name="prompt"\r\n\r\nsay hello',
        b'--X\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n'
        b"Content-Type: audio/wav\r\n\r\n" + file,
        b"--X--\r\n",
    ]
    body = b"\r\n".join(lines)
    fields = [("Content-Type", "multipart/form-data; boundary=X")]
    return proxied(path.relay_key, "POST", "/acme/v1/audio", fields, body)


async def test_bodies_pass_and_are_kept_byte_for_byte(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(OK)
    body = b'{ "model":"m", "x" : 1.0e0 }'
    request = proxied(path.relay_key, "POST", "/acme/v1/plain?a=b", [JSON], body)
    answer, record = await exchange(path, request)
    assert (record.request, record.response) == (body, answer.body)
    assert upstream.ledger[0].body == body


@pytest.mark.parametrize("framing", ["sized", "chunked"])
async def test_a_streamed_upload_is_kept_up_to_the_size_and_passes_whole(
    path: DataPath, upstream: ScriptedUpstream, framing: str
) -> None:
    upstream.enqueue(OK)
    body = b'{"model":"m","text":"%b"}' % (b"x" * (4 * MIB))
    pieces = [body[at : at + 100_000] for at in range(0, len(body), 100_000)]
    sized = proxied(path.relay_key, "POST", "/acme/v1/plain", [JSON], body)
    in_pieces = proxied(path.relay_key, "POST", "/acme/v1/plain", [JSON], chunks=pieces)
    _, record = await exchange(path, sized if framing == "sized" else in_pieces)
    assert upstream.ledger[0].body == body
    assert record.request == body[:MIB]
    assert (record.request_bytes, record.request_truncated) == (len(body), True)


async def test_a_large_download_is_kept_up_to_the_size(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    large = b'{"text":"' + b"y" * (3 * MIB) + b'"}'
    upstream.enqueue(response(200, large, [JSON]))
    async with RawCaller(path.port) as caller:
        caller.send(proxied(path.relay_key, "GET", "/acme/v1/files/1"))
        assert (await caller.read_answer()).body == large
    await path.until_captured()
    record = path.payload_records[0]
    assert (record.response, record.response_bytes) == (large[:MIB], len(large))
    assert (record.response_truncated, record.request, record.request_truncated) == (
        True, b"", False,
    )  # fmt: skip


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_encoded_answers_pass_encoded_and_are_kept_decoded(
    path: DataPath, upstream: ScriptedUpstream, encoding: str
) -> None:
    packed = gzip.compress(STREAM) if encoding == "gzip" else zlib.compress(STREAM)
    fields = [("Content-Type", "text/event-stream"), ("Content-Encoding", encoding)]
    pieces = b"".join(chunk(packed[at : at + 5]) for at in range(0, len(packed), 5))
    upstream.enqueue([Send(head(200, fields) + pieces + b"0\r\n\r\n")])
    request = proxied(path.relay_key, "POST", "/acme/v1/plain", [JSON], b'{"model":"m"}')
    answer, record = await exchange(path, request)
    assert answer.body == packed
    assert (record.response, record.response_bytes) == (STREAM, len(packed))
    assert (record.response_truncated, record.response_sha256) == (False, None)


async def test_an_encoded_request_is_kept_decoded(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(OK)
    body = b'{"model":"m","text":"hello"}'
    fields = [JSON, ("Content-Encoding", "gzip")]
    packed = gzip.compress(body)
    request = proxied(path.relay_key, "POST", "/acme/v1/plain", fields, packed)
    _, record = await exchange(path, request)
    assert (record.request, record.request_bytes) == (body, len(packed))
    assert upstream.ledger[0].body == packed


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", b"this is no gzip"),
        ("compress", b'{"a":1}'),
        ("gzip", gzip.compress(b"a\0b", mtime=0)),
    ],
)
async def test_t65_what_cannot_be_read_is_not_kept_but_told_by_its_digest(
    path: DataPath, upstream: ScriptedUpstream, encoding: str, body: bytes
) -> None:
    upstream.enqueue(response(200, body, [JSON, ("Content-Encoding", encoding)]))
    request = proxied(path.relay_key, "POST", "/acme/v1/plain", [JSON], b'{"model":"m"}')
    answer, record = await exchange(path, request)
    assert (answer.body, record.response) == (body, b"")
    assert record.response_sha256 == hashlib.sha256(body).hexdigest()


async def test_t65_an_answer_that_decodes_to_a_thousand_times_its_size_is_kept_up_to_the_size(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    bomb = gzip.compress(b" " * (64 * MIB))
    upstream.enqueue(response(200, bomb, [JSON, ("Content-Encoding", "gzip")]))
    request = proxied(path.relay_key, "GET", "/acme/v1/files")
    answer, record = await exchange(path, request)
    assert (answer.body, record.response_bytes) == (bomb, len(bomb))
    assert record.response_truncated
    assert len(record.response) <= MIB


async def test_audio_is_told_by_size_and_digest(path: DataPath, upstream: ScriptedUpstream) -> None:
    sound = bytes(range(256)) * 5000
    upstream.enqueue(response(200, sound, [("Content-Type", "audio/mpeg")]))
    request = proxied(path.relay_key, "POST", "/acme/v1/speech", [JSON], b'{"model":"m"}')
    answer, record = await exchange(path, request)
    assert (answer.body, record.response, record.response_bytes) == (sound, b"", len(sound))
    assert record.response_sha256 == hashlib.sha256(sound).hexdigest()
    assert not record.response_truncated


@pytest.mark.parametrize("size", [100, 3 * MIB])
async def test_of_a_form_its_texts_are_kept_and_its_files_are_told_by_size_and_digest(
    path: DataPath, upstream: ScriptedUpstream, size: int
) -> None:
    upstream.enqueue(OK)
    file = (b"RIFF\0\1\r\n--" * (size // 10 + 1))[:size]
    request = form(path, file)
    _, record = await exchange(path, request)
    body = request.partition(b"\r\n\r\n")[2]
    assert upstream.ledger[0].body == body
    told = b"[file of %d bytes, sha256 %b]" % (size, hashlib.sha256(file).hexdigest().encode())
    assert record.request == body.replace(file, told)
    assert (record.request_bytes, record.request_truncated) == (len(body), False)
    assert record.request_sha256 == hashlib.sha256(body).hexdigest()


async def test_an_upload_that_is_refused_on_its_way_is_kept_as_far_as_it_came(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    policy = next(row for row in path.draft.rows if row.kind == "policy")
    policy.spec["deny"] = ["other"]
    path.publish()
    body = b'{"text":"%b","model":"other"}' % (b"x" * (2 * MIB))
    request = proxied(path.relay_key, "POST", "/acme/v1/plain", [JSON], body)
    async with RawCaller(path.port) as caller:
        answer = await caller.ask(request)
    await path.until_captured()
    record = path.payload_records[0]
    assert (answer.status, record.response) == (403, answer.body)
    assert record.request == body[:MIB]
    assert record.request_truncated


async def test_a_caller_that_leaves_while_it_uploads_leaves_what_it_sent(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    upstream.early = True
    upstream.enqueue([Hang()])
    body = b'{"model":"m","text":"' + b"x" * (4 * MIB)
    request = proxied(path.relay_key, "POST", "/acme/v1/plain", [JSON], body)
    async with RawCaller(path.port) as caller:
        caller.send(request[: 3 * MIB])
        for _ in range(1000):
            if len(upstream.received) > 2 * MIB:
                break
            await asyncio.sleep(0.005)
    await path.until_captured()
    record = path.payload_records[0]
    assert record.request == body[:MIB]
    assert (len(record.request), record.request_truncated) == (MIB, True)


async def test_t65_neither_the_relay_key_nor_the_callers_credential_is_kept(
    open_path: MakePath, upstream: ScriptedUpstream
) -> None:
    canary = Canary()
    credential = canary.secret("credential", prefix="sk-up-")
    in_query = canary.secret("query")
    answered = json.dumps({"error": f"bad key {credential[:14]}...{credential[-8:]} {in_query}"})
    upstream.enqueue(response(401, answered.encode(), [JSON]))
    async with open_path(headers=["accept", "x-echo"]) as path:
        canary.adopt("relay key", path.relay_key, public=9)
        fields = [
            JSON,
            ("Authorization", f"Bearer {credential}"),
            ("Accept", "application/json"),
            ("X-Echo", f"key {credential}"),
        ]
        body = json.dumps({"model": "m", "note": f"{credential} {path.relay_key}"}).encode()
        request = proxied(path.relay_key, "POST", f"/acme/v1/plain?key={in_query}", fields, body)
        answer, record = await exchange(path, request)
    assert answer.body == answered.encode()
    assert_absent(canary, texts=[record.request, record.response, repr(record)])
    assert record.request_headers == (("accept", "application/json"), ("x-echo", "key [redacted]"))


async def test_requests_without_a_relay_key_are_never_kept(
    open_path: MakePath, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(OK)
    async with open_path() as path:
        settings = path.settings
        allowed = settings.proxy_mode.model_copy(update={"allow_unauthenticated": True})
        path.settings = type(settings)(proxy_mode=allowed, payload_logging=settings.payload_logging)
        path.publish()
        fields = [JSON, ("X-Relay-Upstream-Host", "m"), ("Authorization", "Bearer x")]
        request = proxied(None, "POST", "/v1/plain", fields, b'{"model":"m"}')
        async with RawCaller(path.port) as caller:
            assert (await caller.ask(request)).status == 200
        await path.until_recorded()
    assert path.payload_records == []
