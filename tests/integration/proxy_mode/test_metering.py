"""Usage is read from a copy, whatever the answer is encoded in; the answer is not touched."""

from __future__ import annotations

import asyncio
import gzip
import zlib

import brotli
import pytest
import zstandard

from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.proxied import proxied
from relay_gateway.testing.raw_caller import RawAnswer, RawCaller
from relay_gateway.testing.script import (
    Close,
    Hang,
    Reset,
    Script,
    Send,
    WaitFor,
    chunk,
    head,
    response,
    sliced,
    sse_event,
    sse_response,
)
from relay_gateway.testing.upstream import ScriptedUpstream

JSON = ("Content-Type", "application/json")
STREAM = ("Content-Type", "text/event-stream")
ENCODE = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
}
EVENTS = [sse_event("hello"), sse_event("usage 3:5"), sse_event("end")]


async def ask(path: DataPath) -> RawAnswer:
    fields = [JSON, ("Accept-Encoding", "gzip, deflate, br, zstd")]
    request = proxied(path.relay_key, "POST", "/acme/v1/plain", fields, b'{"model":"m"}')
    async with RawCaller(path.port) as caller:
        return await caller.ask(request)


@pytest.mark.parametrize("coding", ENCODE)
@pytest.mark.parametrize("size", [1, 10_000])
@pytest.mark.parametrize("streamed", [False, True])
async def test_t71_an_encoded_answer_is_metered_and_passed_on_as_it_is(
    path: DataPath, upstream: ScriptedUpstream, coding: str, size: int, streamed: bool
) -> None:
    plain, kind = (b"".join(EVENTS), STREAM) if streamed else (b"3:5", JSON)
    packed = ENCODE[coding](plain)
    whole = response(200, packed, [kind, ("Content-Encoding", coding)], chunked=streamed)
    upstream.enqueue(sliced(whole, size))
    answer = await ask(path)
    assert answer.body == packed
    assert f"Content-Encoding: {coding}\r\n".encode() in answer.head
    one = await path.until_recorded()
    assert (one.tokens, one.streamed, one.outcome) == ({"input": 3, "output": 5}, streamed, "ok")
    assert (one.usage_source, one.upstream_wire_format) == ("upstream", "plain.chat")
    assert upstream.ledger[0].header("accept-encoding") == "gzip, deflate, br, zstd"


@pytest.mark.parametrize("coding", ENCODE)
async def test_t31_a_bomb_passes_untouched_and_unmetered(
    path: DataPath, upstream: ScriptedUpstream, coding: str
) -> None:
    bomb = ENCODE[coding](b"3:5" + bytes(50_000_000))
    upstream.enqueue(response(200, bomb, [JSON, ("Content-Encoding", coding)]))
    assert (await ask(path)).body == bomb
    one = await path.until_recorded()
    assert (one.tokens, one.usage_source, one.outcome) == ({}, "none", "ok")


@pytest.mark.parametrize("coding", ["compress", "gzip, br", "gzip"])
async def test_an_encoding_that_cannot_be_read_is_passed_on(
    path: DataPath, upstream: ScriptedUpstream, coding: str
) -> None:
    upstream.enqueue(response(200, b"3:5", [JSON, ("Content-Encoding", coding)]))
    assert (await ask(path)).body == b"3:5"
    assert (await path.until_recorded()).usage_source == "none"


@pytest.mark.parametrize("encoded", [False, True])
async def test_f55_a_client_that_leaves_right_after_the_terminal_event_has_its_whole_usage(
    path: DataPath, upstream: ScriptedUpstream, encoded: bool
) -> None:
    packer = zlib.compressobj(wbits=31)
    last = b"".join(EVENTS)
    data = packer.compress(last) + packer.flush(zlib.Z_SYNC_FLUSH) if encoded else last
    fields = [STREAM, *([("Content-Encoding", "gzip")] if encoded else [])]
    upstream.enqueue([Send(head(200, fields) + chunk(data)), Hang()])
    request = proxied(path.relay_key, "POST", "/acme/v1/plain", [JSON], b'{"model":"m"}')
    async with RawCaller(path.port) as caller:
        await caller.send(request).reader.readuntil(data)
    one = await path.until_recorded()
    assert (one.outcome, one.error_code) == ("ok", None)
    assert one.tokens == {"input": 3, "output": 5}


async def test_f55_a_client_that_leaves_earlier_is_recorded_with_what_was_seen(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    seen = EVENTS[0] + EVENTS[1]
    upstream.enqueue([Send(head(200, [STREAM]) + chunk(seen)), Hang()])
    request = proxied(path.relay_key, "POST", "/acme/v1/plain", [JSON], b'{"model":"m"}')
    async with RawCaller(path.port) as caller:
        await caller.send(request).reader.readuntil(seen)
    await upstream.wait_for_cancellation()
    one = await path.until_recorded()
    assert (one.outcome, one.error_code) == ("cancelled", "client_closed")
    assert one.tokens == {"input": 3, "output": 5}


@pytest.mark.parametrize(
    ("ending", "complete", "outcome"),
    [([Reset()], False, "aborted"), ([Close()], False, "aborted"), (None, True, "upstream_error")],
)
async def test_f46_a_stream_that_breaks_off_gets_no_event_of_ours(
    path: DataPath,
    upstream: ScriptedUpstream,
    ending: Script | None,
    complete: bool,
    outcome: str,
) -> None:
    seen = WaitFor(asyncio.Event())
    events = EVENTS[:2]
    if ending is None:
        upstream.enqueue(sse_response(events))
    else:
        upstream.enqueue(sse_response(events, ending=[seen, *ending]))
    request = proxied(path.relay_key, "POST", "/acme/v1/plain", [JSON], b'{"model":"m"}')
    async with RawCaller(path.port) as caller:
        caller.send(request)
        await upstream.wait_for_requests()
        seen.event.set()
        answer = await caller.read_answer()
    assert b"".join(events).startswith(answer.body)
    assert answer.complete is complete
    assert (await path.until_recorded()).outcome == outcome


async def test_an_error_of_the_upstream_is_passed_on_and_recorded(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    body = b'{"error":"no such key"}'
    upstream.enqueue(response(401, body, [JSON, ("WWW-Authenticate", "Bearer")]))
    answer = await ask(path)
    assert (answer.status, answer.body) == (401, body)
    one = await path.until_recorded()
    assert (one.status, one.outcome, one.usage_source) == (401, "upstream_error", "none")
    assert [attempt.status for attempt in one.attempts] == [401]


async def test_requests_that_no_wire_format_knows_are_recorded_too(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(response(200, b'{"data":[]}', [JSON]))
    async with RawCaller(path.port) as caller:
        answer = await caller.ask(proxied(path.relay_key, "GET", "/acme/v1/models?limit=5"))
    assert (answer.status, answer.body) == (200, b'{"data":[]}')
    one = await path.until_recorded()
    assert (one.mode, one.endpoint, one.wire_format, one.status) == ("proxy", "other", "", 200)
    assert one.host_id is not None
    assert upstream.ledger[0].target == "/v1/models?limit=5"
