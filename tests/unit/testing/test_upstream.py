"""The scripted upstream: what it sends, what it remembers, how it breaks."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from relay_gateway.testing.script import (
    LAST_CHUNK,
    Close,
    HalfClose,
    Hang,
    Reset,
    Send,
    Step,
    Wait,
    WaitFor,
    chunk,
    cut,
    head,
    json_response,
    response,
    size,
    sliced,
    sse_event,
    sse_response,
)
from relay_gateway.testing.upstream import ScriptedUpstream, answers

REQUEST = b"POST /x?y=1 HTTP/1.1\r\nHost: a\r\nX-Odd: 1\r\nx-odd:2\r\nContent-Length: 2\r\n\r\n{}"


@asynccontextmanager
async def connected(
    upstream: ScriptedUpstream,
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", upstream.port)
    try:
        yield reader, writer
    finally:
        writer.close()


@asynccontextmanager
async def http_client(upstream: ScriptedUpstream) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=upstream.url, trust_env=False) as client:
        yield client


async def exchange(upstream: ScriptedUpstream, request: bytes = REQUEST) -> bytes:
    """What comes back until the server closes the connection."""
    async with connected(upstream) as (reader, writer):
        writer.write(request)
        return await reader.read()


async def test_the_ledger_keeps_a_request_byte_for_byte(
    scripted_upstream: ScriptedUpstream,
) -> None:
    scripted_upstream.enqueue([*response(200, b"ok"), Close()])
    assert (await exchange(scripted_upstream)).endswith(b"\r\n\r\nok")
    (seen,) = scripted_upstream.ledger
    assert (seen.method, seen.target, seen.http_version) == ("POST", "/x?y=1", "1.1")
    assert seen.raw == REQUEST
    assert seen.body == b"{}"
    assert seen.json() == {}
    assert seen.headers[1:3] == ((b"X-Odd", b"1"), (b"x-odd", b"2"))
    assert seen.header("x-oDD") == "1"
    assert seen.header_values("x-odd") == ["1", "2"]
    assert seen.header("absent") is None
    assert seen.header_names() == ["Host", "X-Odd", "x-odd", "Content-Length"]
    assert REQUEST in scripted_upstream.received


async def test_a_connection_is_kept_for_the_next_request(
    scripted_upstream: ScriptedUpstream,
) -> None:
    scripted_upstream.answer = lambda request: json_response(200, {"n": request.ordinal})
    async with http_client(scripted_upstream) as client:
        assert (await client.post("/", json={})).json() == {"n": 1}
        assert (await client.post("/", json={})).json() == {"n": 2}
        assert scripted_upstream.open_connections == 1
    await scripted_upstream.until(lambda: scripted_upstream.open_connections == 0)
    assert [request.connection_id for request in scripted_upstream.ledger] == [1, 1]
    assert scripted_upstream.connections[0].peer_closed_at is not None


async def test_the_queue_comes_before_the_answer_function(
    scripted_upstream: ScriptedUpstream,
) -> None:
    scripted_upstream.answer = lambda _: json_response(200, {})
    scripted_upstream.enqueue(json_response(429, {}), json_response(503, {}))
    async with http_client(scripted_upstream) as client:
        statuses = [(await client.get("/")).status_code for _ in range(3)]
    assert statuses == [429, 503, 200]


async def test_a_request_nobody_scripted_says_so(scripted_upstream: ScriptedUpstream) -> None:
    async with http_client(scripted_upstream) as client:
        answer = await client.get("/surprise")
    assert answer.status_code == 500
    assert "no answer is scripted for GET /surprise" in answer.text


async def test_answers_picks_a_script_by_path(scripted_upstream: ScriptedUpstream) -> None:
    scripted_upstream.answer = answers([("/a", json_response(201, {}))])
    async with http_client(scripted_upstream) as client:
        assert (await client.get("/a?q=1")).status_code == 201
        assert (await client.get("/b")).status_code == 404


async def test_chunked_requests_are_read_and_kept_raw(scripted_upstream: ScriptedUpstream) -> None:
    request = (
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nTrailer: x\r\n\r\n"
    )
    scripted_upstream.enqueue([*response(204), Close()])
    await exchange(scripted_upstream, request)
    assert scripted_upstream.ledger[0].body == b"abcde"
    assert scripted_upstream.ledger[0].raw == request


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\nno-colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nname : v\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc",
    ],
)
async def test_malformed_requests_are_reported_and_refused(
    scripted_upstream: ScriptedUpstream, request_bytes: bytes
) -> None:
    assert (await exchange(scripted_upstream, request_bytes)).startswith(b"HTTP/1.1 400 ")
    assert len(scripted_upstream.malformed) == 1
    assert scripted_upstream.ledger == []


@pytest.mark.parametrize("chunked", [False, True])
async def test_json_answers_come_sized_or_chunked(
    scripted_upstream: ScriptedUpstream, *, chunked: bool
) -> None:
    scripted_upstream.enqueue(json_response(418, {"ä": 1}, [("x-a", "b")], chunked=chunked))
    async with http_client(scripted_upstream) as client:
        answer = await client.get("/")
    assert answer.status_code == 418
    assert answer.json() == {"ä": 1}
    assert answer.headers["x-a"] == "b"
    assert ("transfer-encoding" in answer.headers) is chunked
    assert ("content-length" in answer.headers) is not chunked


async def test_event_streams_arrive_event_by_event(scripted_upstream: ScriptedUpstream) -> None:
    events = [sse_event({"a": 1}), sse_event("two\nlines", event="named"), sse_event("[END]")]
    scripted_upstream.enqueue(sse_response(events, delay=0.001))
    async with http_client(scripted_upstream) as client:
        answer = await client.post("/")
    assert answer.text == (
        'data: {"a":1}\n\nevent: named\ndata: two\ndata: lines\n\ndata: [END]\n\n'
    )
    assert answer.headers["content-type"].startswith("text/event-stream")


async def test_a_reset_is_seen_as_a_reset(scripted_upstream: ScriptedUpstream) -> None:
    scripted_upstream.enqueue(sse_response([b"data: 1\n\n"], ending=[Reset()]))
    async with connected(scripted_upstream) as (reader, writer):
        writer.write(REQUEST)
        await reader.readuntil(b"data: 1\n\n\r\n")
        with pytest.raises(ConnectionResetError):
            await reader.read()
    assert scripted_upstream.cancellations == []


async def test_a_half_close_still_answers(scripted_upstream: ScriptedUpstream) -> None:
    scripted_upstream.enqueue([HalfClose(), Hang()])
    async with connected(scripted_upstream) as (reader, writer):
        writer.write(REQUEST)
        assert await reader.read() == b""
        assert scripted_upstream.open_connections == 1


async def test_steps_after_the_end_of_a_connection_are_not_played(
    scripted_upstream: ScriptedUpstream,
) -> None:
    scripted_upstream.enqueue([Close(), Send(b"too late")])
    assert await exchange(scripted_upstream) == b""


async def test_a_peer_that_leaves_before_the_end_is_a_cancellation(
    scripted_upstream: ScriptedUpstream,
) -> None:
    scripted_upstream.enqueue(sse_response([b"data: 1\n\n"], ending=[Hang()]))
    async with connected(scripted_upstream) as (reader, writer):
        writer.write(REQUEST)
        await reader.readuntil(b"data: 1")
        left_at = asyncio.get_running_loop().time()
    cancellation = await scripted_upstream.wait_for_cancellation()
    assert cancellation.request is scripted_upstream.ledger[0]
    assert left_at <= cancellation.at < left_at + 1


async def test_a_peer_that_leaves_after_the_end_is_no_cancellation(
    scripted_upstream: ScriptedUpstream,
) -> None:
    scripted_upstream.enqueue(response(200, b"ok"))
    async with connected(scripted_upstream) as (reader, writer):
        writer.write(REQUEST)
        await reader.readuntil(b"ok")
    await scripted_upstream.until(lambda: scripted_upstream.open_connections == 0)
    assert scripted_upstream.cancellations == []


async def test_a_script_can_wait_for_the_test(scripted_upstream: ScriptedUpstream) -> None:
    go = asyncio.Event()
    scripted_upstream.enqueue([WaitFor(go), *response(200, b"ok"), Close()])
    task = asyncio.create_task(exchange(scripted_upstream))
    await scripted_upstream.wait_for_requests()
    assert scripted_upstream.connections[0].sent == 0
    go.set()
    assert (await task).endswith(b"ok")
    assert scripted_upstream.connections[0].sent > 0


async def test_a_reader_that_stops_holds_the_script_back(
    scripted_upstream: ScriptedUpstream,
) -> None:
    piece = bytes(1 << 20)
    pieces: list[Step] = [Send(piece) for _ in range(64)]
    scripted_upstream.enqueue(pieces)
    reader, writer = await asyncio.open_connection("127.0.0.1", scripted_upstream.port, limit=1024)
    writer.write(REQUEST)
    assert await reader.read(1)
    await scripted_upstream.wait_for_requests()
    assert scripted_upstream.connections[0].sent < 64 << 20
    writer.close()
    await scripted_upstream.wait_for_cancellation()


async def test_a_greeting_comes_before_any_request() -> None:
    async with ScriptedUpstream(greeting=lambda _: [Send(b"hello"), Close()]) as upstream:
        async with connected(upstream) as (reader, _):
            assert await reader.read() == b"hello"
        assert upstream.ledger == []


async def test_an_early_answer_does_not_wait_for_the_body() -> None:
    async with ScriptedUpstream(lambda _: response(413, b"no"), early=True) as upstream:
        async with connected(upstream) as (reader, writer):
            writer.write(b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\n")
            await reader.readuntil(b"no")
            writer.write(b"abcPOST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n")
            await reader.readuntil(b"no")
        assert [request.body for request in upstream.ledger] == [b"", b""]
        assert b"\r\n\r\nabc" in upstream.received


async def test_it_comes_back_on_the_same_port(scripted_upstream: ScriptedUpstream) -> None:
    port = scripted_upstream.port
    await scripted_upstream.aclose()
    await scripted_upstream.aclose()
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    await scripted_upstream.start()
    scripted_upstream.enqueue([*response(), Close()])
    assert scripted_upstream.port == port
    assert await exchange(scripted_upstream)


async def test_waiting_in_vain_tells_what_was_seen(scripted_upstream: ScriptedUpstream) -> None:
    with pytest.raises(AssertionError, match=r"0 connections .* 0 requests"):
        await scripted_upstream.wait_for_requests(seconds=0.01)


async def test_it_speaks_tls(certificate: Path) -> None:
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate)
    trusting = ssl.create_default_context(cafile=str(certificate))
    async with ScriptedUpstream(lambda _: response(200, b"ok"), tls=server) as upstream:
        async with httpx.AsyncClient(verify=trusting, trust_env=False) as client:
            assert (await client.get(f"{upstream.url}/")).text == "ok"
        assert upstream.url.startswith("https://")
        assert upstream.ledger[0].raw.startswith(b"GET / HTTP/1.1\r\n")


async def test_a_script_with_an_unknown_step_is_an_error(
    scripted_upstream: ScriptedUpstream,
) -> None:
    scripted_upstream.answer = lambda _: ["no step"]  # type: ignore[list-item]
    assert b"500" in await exchange(scripted_upstream)
    assert "is not a step" in scripted_upstream.errors[0]


def test_cut_ends_an_answer_at_any_byte() -> None:
    script: list[Step] = [Send(b"abc"), Wait(1), Send(b"def")]
    assert cut(script, 0) == [Reset()]
    assert cut(script, 2) == [Send(b"ab"), Reset()]
    assert cut(script, 3) == [Send(b"abc"), Reset()]
    assert cut(script, 4, Close()) == [Send(b"abc"), Wait(1), Send(b"d"), Close()]
    assert [size(cut(script, at)) for at in range(7)] == list(range(7))


def test_sliced_sends_the_same_bytes_in_pieces() -> None:
    pieces = sliced([Send(b"abcde"), Wait(3)], 2)
    assert [step.data for step in pieces if isinstance(step, Send)] == [b"ab", b"cd", b"e"]
    assert pieces[-1] == Wait(3)


def test_heads_can_be_of_http_1_0_and_of_any_status() -> None:
    assert head(599, version="1.0") == b"HTTP/1.0 599 Unassigned\r\n\r\n"
    assert head(200, length=3) == b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n"
    assert chunk(b"abc") + LAST_CHUNK == b"3\r\nabc\r\n0\r\n\r\n"
