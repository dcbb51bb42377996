from __future__ import annotations

import asyncio

import pytest

from relay_gateway.errors import (
    UpstreamClosedError,
    UpstreamError,
    UpstreamProtocolError,
)
from relay_gateway.http.client import HttpClient
from relay_gateway.http.target import Target
from relay_gateway.plugin import UpstreamRequest
from relay_gateway.testing.script import (
    Close,
    Hang,
    Reset,
    Script,
    Send,
    WaitFor,
    cut,
    response,
    size,
    sliced,
    sse_event,
    sse_response,
)
from relay_gateway.testing.upstream import ScriptedUpstream

from .asking import OK


def post(body: bytes = b"{}", path: bytes = b"/v1/x") -> UpstreamRequest:
    return UpstreamRequest(path, b"content-type: application/json\r\n", body)


class Recorder:
    """A receiver that remembers."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.ends = 0
        self.errors: list[UpstreamError] = []
        self.finished = asyncio.Event()

    def data(self, chunk: bytes) -> None:
        assert chunk
        assert not self.finished.is_set()
        self.chunks.append(chunk)

    def end(self) -> None:
        self.ends += 1
        self.finished.set()

    def failed(self, error: UpstreamError) -> None:
        self.errors.append(error)
        self.finished.set()

    @property
    def body(self) -> bytes:
        return b"".join(self.chunks)


async def test_a_request_arrives_as_it_was_given_and_its_answer_comes_back(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(response(201, b"hello", [("X-Thing", "a  "), ("x-thing", "b")]))
    exchange = await client.send(Target.from_url(upstream.url), post(b'{"a":1}'))
    assert await exchange.read(100) == b"hello"
    assert exchange.status == 201
    assert exchange.body_complete
    assert exchange.headers.all(b"x-thing") == [b"a", b"b"]
    assert not exchange.reused
    assert upstream.ledger[0].raw == (
        b"POST /v1/x HTTP/1.1\r\nHost: 127.0.0.1:%d\r\ncontent-type: application/json\r\n"
        b'Content-Length: 7\r\n\r\n{"a":1}' % upstream.port
    )


@pytest.mark.parametrize(
    ("method", "length"), [(b"GET", None), (b"HEAD", None), (b"POST", "0"), (b"DELETE", "0")]
)
async def test_content_length_is_left_out_only_where_a_body_has_no_meaning(
    client: HttpClient, upstream: ScriptedUpstream, method: bytes, length: str | None
) -> None:
    upstream.enqueue(response(204))
    await client.send(Target.from_url(upstream.url), UpstreamRequest(b"/", b"", b"", method=method))
    assert upstream.ledger[0].header("content-length") == length


async def test_an_answer_to_head_has_no_body_and_ends_its_connection(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue([Send(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n")], OK)
    target = Target.from_url(upstream.url)
    exchange = await client.send(target, UpstreamRequest(b"/", b"", b"", method=b"HEAD"))
    assert (exchange.status, await exchange.read(10)) == (200, b"")
    assert not (await client.send(target, post())).reused


@pytest.mark.parametrize("length", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("chunked", [True, False])
async def test_a_body_is_the_same_however_it_is_cut(
    client: HttpClient, upstream: ScriptedUpstream, length: int, *, chunked: bool
) -> None:
    body = bytes(range(256))
    upstream.enqueue(sliced(response(200, body, chunked=chunked), length))
    exchange = await client.send(Target.from_url(upstream.url), post())
    assert await exchange.read(1000) == body


async def test_chunks_of_a_stream_are_handed_on_as_they_come(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    events = [sse_event({"n": n}) for n in range(20)]
    upstream.enqueue(sse_response(events, delay=0.001))
    exchange = await client.send(Target.from_url(upstream.url), post())
    recorder = Recorder()
    exchange.receive(recorder)
    await recorder.finished.wait()
    assert recorder.body == b"".join(events)
    assert len(recorder.chunks) > 1
    assert (recorder.ends, recorder.errors) == (1, [])
    assert exchange.body_complete


async def test_a_body_that_ends_with_the_connection_is_whole(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue([Send(b"HTTP/1.1 200 OK\r\n\r\nhello"), Close()], OK)
    target = Target.from_url(upstream.url)
    assert await (await client.send(target, post())).read(100) == b"hello"
    assert not (await client.send(target, post())).reused


async def test_f35_a_body_that_should_end_with_the_connection_is_not_whole_after_a_reset(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue([Send(b"HTTP/1.1 200 OK\r\n\r\nhello"), Reset()])
    with pytest.raises(UpstreamClosedError):
        await (await client.send(Target.from_url(upstream.url), post())).read(100)


@pytest.mark.parametrize("ending", [Close(), Reset()])
@pytest.mark.parametrize(
    "script",
    [response(200, b"hello"), sse_response([sse_event("a"), sse_event("b")])],
    ids=["content-length", "chunked"],
)
async def test_f35_an_answer_cut_at_any_byte_fails_and_never_ends_cleanly(
    client: HttpClient, upstream: ScriptedUpstream, script: Script, ending: Close | Reset
) -> None:
    target = Target.from_url(upstream.url)
    for at in range(size(script)):
        upstream.enqueue(cut(script, at, ending))
        with pytest.raises(UpstreamClosedError):
            await (await client.send(target, post())).read(1000)
    assert len(upstream.ledger) == size(script), "no request was sent twice"


async def test_f35_what_arrived_before_a_break_is_delivered_before_the_failure(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(sse_response([sse_event("a")], ending=[Close()]))
    exchange = await client.send(Target.from_url(upstream.url), post())
    recorder = Recorder()
    exchange.receive(recorder)
    await recorder.finished.wait()
    assert recorder.body == sse_event("a")
    assert [type(error) for error in recorder.errors] == [UpstreamClosedError]
    assert recorder.ends == 0
    assert not exchange.body_complete


async def test_a_longer_body_than_asked_for_is_cut_and_its_connection_closed(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue([*sse_response([b"x" * 100], ending=[Hang()])], OK)
    target = Target.from_url(upstream.url)
    exchange = await client.send(target, post())
    assert await exchange.read(10) == b"x" * 10
    await upstream.wait_for_cancellation()
    assert not (await client.send(target, post())).reused


async def test_t05_a_redirect_is_an_answer_and_is_not_followed(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(response(307, b"", [("Location", "http://127.0.0.1:1/")]))
    exchange = await client.send(Target.from_url(upstream.url), post())
    assert exchange.status == 307
    assert len(upstream.ledger) == 1


async def test_t31_a_compressed_body_is_not_touched(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    bomb = b"\x1f\x8b\x08" + bytes(100)
    upstream.enqueue(response(200, bomb, [("Content-Encoding", "gzip")]))
    assert await (await client.send(Target.from_url(upstream.url), post())).read(1000) == bomb


async def test_informational_responses_are_skipped(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    early = b"HTTP/1.1 100 Continue\r\n\r\n" + b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    upstream.enqueue([Send(early), *OK])
    exchange = await client.send(Target.from_url(upstream.url), post())
    assert exchange.status == 200
    assert b"link" not in exchange.headers


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b"HTTP/1.1 100 Continue\r\n\r\n" * 21, id="1xx flood"),
        pytest.param(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000, id="endless header"),
        pytest.param(b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000 + b"\r\n", id="many headers"),
    ],
)
async def test_f38_what_has_no_end_is_refused(
    client: HttpClient, upstream: ScriptedUpstream, answer: bytes
) -> None:
    upstream.enqueue([Send(answer), Hang()])
    with pytest.raises(UpstreamProtocolError):
        await client.send(Target.from_url(upstream.url), post())


async def test_a_fault_inside_the_body_fails_after_what_was_sound(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    started = asyncio.Event()
    start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    upstream.enqueue([Send(start), WaitFor(started), Send(b"3\r\nabc\r\nzz\r\n"), Hang()])
    exchange = await client.send(Target.from_url(upstream.url), post())
    recorder = Recorder()
    exchange.receive(recorder)
    started.set()
    await recorder.finished.wait()
    assert recorder.body == b"abc"
    assert [type(error) for error in recorder.errors] == [UpstreamProtocolError]
    await upstream.wait_for_cancellation()


async def test_f50_trailers_are_dropped(client: HttpClient, upstream: ScriptedUpstream) -> None:
    start = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    upstream.enqueue([Send(start + b"3\r\nabc\r\n0\r\nX-Late: 1\r\n\r\n")], OK)
    target = Target.from_url(upstream.url)
    exchange = await client.send(target, post())
    assert await exchange.read(100) == b"abc"
    assert b"x-late" not in exchange.headers
    assert (await client.send(target, post())).reused


async def test_reading_pauses_while_nobody_receives_and_goes_on_afterwards(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    size_of_body = 32 * 1024 * 1024
    upstream.enqueue(response(200, b"x" * size_of_body))
    exchange = await client.send(Target.from_url(upstream.url), post())
    for _ in range(200):
        await asyncio.sleep(0)
    assert upstream.connections[0].sent < size_of_body
    assert not exchange.body_complete
    recorder = Recorder()
    exchange.receive(recorder)
    await recorder.finished.wait()
    assert sum(map(len, recorder.chunks)) == size_of_body


async def test_a_paused_receiver_gets_at_most_one_more_chunk(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    size_of_body = 8 * 1024 * 1024
    upstream.enqueue(response(200, b"x" * size_of_body), OK)
    target = Target.from_url(upstream.url)
    exchange = await client.send(target, post())
    recorder = Recorder()
    exchange.receive(recorder)
    exchange.pause()
    seen = len(recorder.chunks)
    for _ in range(100):
        await asyncio.sleep(0)
    assert len(recorder.chunks) <= seen + 1
    assert not recorder.finished.is_set()
    exchange.resume()
    await recorder.finished.wait()
    assert sum(map(len, recorder.chunks)) == size_of_body
    assert (await client.send(target, post())).reused


async def test_a_large_body_is_sent_whole(client: HttpClient, upstream: ScriptedUpstream) -> None:
    body = bytes(range(256)) * 40_000
    upstream.enqueue(OK)
    exchange = await client.send(Target.from_url(upstream.url), post(body))
    assert await exchange.read(100) == b"hello"
    assert upstream.ledger[0].body == body


@pytest.mark.parametrize("block", [b"a: b\nc: d\r\n", b"a: b\r\n\r\n", b"a: b", b"a: \0\r\n"])
async def test_a_header_that_would_break_the_framing_is_not_sent_and_not_quoted(
    client: HttpClient, upstream: ScriptedUpstream, block: bytes
) -> None:
    request = UpstreamRequest(b"/", block, b"")
    with pytest.raises(UpstreamError, match="line break") as caught:
        await client.send(Target.from_url(upstream.url), request)
    assert not caught.value.sent
    assert "a: b" not in str(caught.value)
    assert upstream.connections == []
