"""Bodies that are not held: at the pace of the slower side, and ended where one of them ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.http.limits import ServerLimits
from relay_gateway.pipeline.proxy import INSPECTED_BYTES
from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.proxied import PROXY_MODE_ON, in_chunks, proxied
from relay_gateway.testing.raw_caller import RawCaller
from relay_gateway.testing.script import Close, Hang, Reset, chunk, head, response
from relay_gateway.testing.upstream import ScriptedUpstream

JSON = ("Content-Type", "application/json")
BINARY = ("Content-Type", "application/octet-stream")
MIB = 1024 * 1024
OK = response(200, b"3:5", [JSON])
LARGE = b'{"text":"%b","model":"m"}' % (b"x" * (4 * MIB))


Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


@asynccontextmanager
async def instead(path: DataPath, serve: Serve) -> AsyncIterator[None]:
    """Has the host served by ``serve``, one connection of it, to its end."""
    served = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await serve(reader, writer)
        writer.close()
        await writer.wait_closed()
        served.set()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, limit=1000)
    host = next(row for row in path.draft.rows if row.kind == "host")
    host.spec["baseUrl"] = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    path.publish()
    yield
    async with asyncio.timeout(5):
        await served.wait()
    server.close()
    await server.wait_closed()


async def begun(upstream: ScriptedUpstream, least: int) -> None:
    """Waits until ``least`` bytes have come to the upstream."""
    for _ in range(1000):
        if sum(len(one.received) for one in upstream.connections) >= least:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"{least} bytes did not come")


@pytest.mark.parametrize("framing", ["sized", "chunked"])
@pytest.mark.parametrize(("where", "kind"), [("/v1/plain", JSON), ("/v1/files", BINARY)])
async def test_a_large_body_arrives_whole_in_the_callers_framing(
    path: DataPath, upstream: ScriptedUpstream, framing: str, where: str, kind: tuple[str, str]
) -> None:
    upstream.enqueue(OK)
    pieces = [LARGE[at : at + 100_000] for at in range(0, len(LARGE), 100_000)]
    request = (
        proxied(path.relay_key, "POST", f"/acme{where}", [kind], LARGE)
        if framing == "sized"
        else proxied(path.relay_key, "POST", f"/acme{where}", [kind], chunks=pieces)
    )
    async with RawCaller(path.port) as caller:
        assert (await caller.ask(request)).body == b"3:5"
        assert (await caller.ask(_small(path, upstream))).status == 200
    seen = upstream.ledger[0]
    assert seen.body == LARGE
    assert (seen.header("content-length") is None) is (framing == "chunked")
    assert [record.bytes_in for record in path.records] == [len(LARGE), 13]
    assert path.bodies_held == 0


def _small(path: DataPath, upstream: ScriptedUpstream) -> bytes:
    upstream.enqueue(OK)
    return proxied(path.relay_key, "POST", "/acme/v1/plain", [JSON], b'{"model":"m"}')


async def test_a_body_streams_before_it_is_complete(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(OK)
    request = proxied(path.relay_key, "POST", "/acme/v1/files", [BINARY], LARGE)
    async with RawCaller(path.port) as caller:
        caller.send(request[: 2 * MIB])
        await begun(upstream, MIB)
        answer = await caller.ask(request[2 * MIB :])
    assert answer.status == 200


async def test_t30_what_a_stalled_upstream_does_not_take_is_not_read_from_the_caller(
    path: DataPath,
) -> None:
    release = asyncio.Event()

    async def stalled(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        await release.wait()
        writer.write(head(200, length=2) + b"ok")

    size = 256 * MIB
    async with instead(path, stalled), RawCaller(path.port) as caller:
        caller.send(proxied(path.relay_key, "POST", "/acme/v1/files", [BINARY], b"")[:-5])
        caller.send(b"%d\r\n\r\n" % size)
        sent = await _send_until_stuck(caller, size)
        assert sent < 32 * MIB
        release.set()
        assert (await caller.read_answer()).body == b"ok"
        caller.writer.transport.abort()  # it still has much to send, which nobody wants
        await path.until_left()


async def _send_until_stuck(caller: RawCaller, size: int) -> int:
    """How much the other side took before it stopped taking for half a second."""
    sent, piece = 0, bytes(MIB)
    while sent < size:
        caller.writer.write(piece)
        try:
            async with asyncio.timeout(0.5):
                await caller.writer.drain()
        except TimeoutError:
            return sent
        sent += len(piece)
    return sent


@pytest.mark.parametrize("status", [413, 200])
async def test_an_early_answer_ends_the_upload(
    path: DataPath, upstream: ScriptedUpstream, status: int
) -> None:
    upstream.early = True
    upstream.enqueue(response(status, b"early", [BINARY]))
    request = proxied(path.relay_key, "POST", "/acme/v1/files", [BINARY], b"")
    request = request.replace(b"Content-Length: 0", b"Content-Length: 9000000") + bytes(3 * MIB)
    async with RawCaller(path.port) as caller:
        caller.send(request)
        answer = await caller.read_answer()
        assert (answer.status, answer.body) == (status, b"early")
        assert b"connection: close" in answer.head.lower()
    await path.until(path.holdings())


async def test_an_answer_may_begin_before_the_request_has_ended(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    go_on = asyncio.Event()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(head(200, [BINARY]) + chunk(b"begun "))
        got = 0
        while got < 4 * MIB:
            got += len(await reader.read(MIB))
        go_on.set()
        writer.write(chunk(b"and ended") + b"0\r\n\r\n")

    request = proxied(path.relay_key, "POST", "/acme/v1/files", [BINARY], bytes(4 * MIB))
    async with instead(path, echo), RawCaller(path.port) as caller:
        caller.send(request[: 2 * MIB])
        begin = await caller.reader.readuntil(b"begun ")
        assert begin.startswith(b"HTTP/1.1 200")
        assert not go_on.is_set()
        caller.send(request[2 * MIB :])
        assert b"and ended" in await caller.reader.readuntil(b"0\r\n\r\n")


async def test_f54_a_caller_that_leaves_in_the_middle_ends_the_upstream_request(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    request = proxied(path.relay_key, "POST", "/acme/v1/files", [BINARY], LARGE)
    async with RawCaller(path.port) as caller:
        caller.send(request[: 2 * MIB])
        await begun(upstream, MIB)
    await upstream.until(lambda: upstream.connections[0].peer_closed_at is not None)
    assert upstream.ledger == []
    one = await path.until_recorded()
    assert (one.outcome, one.error_code) == ("cancelled", "client_closed")


async def test_f54_a_caller_that_leaves_before_the_answer_ends_the_upstream_request(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue([Hang()])
    async with RawCaller(path.port) as caller:
        caller.send(proxied(path.relay_key, "POST", "/acme/v1/plain", [JSON], b'{"model":"m"}'))
        await upstream.wait_for_requests()
    await upstream.wait_for_cancellation()
    assert (await path.until_recorded()).outcome == "cancelled"


async def test_an_upstream_that_dies_in_the_middle_is_502(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    upstream.early = True
    upstream.enqueue([Reset()])
    request = proxied(path.relay_key, "POST", "/acme/v1/files", [BINARY], LARGE)
    async with RawCaller(path.port) as caller:
        answer = await caller.send(request[: 2 * MIB]).read_answer()
    assert answer.status == 502
    assert path.records[0].outcome == "upstream_error"


async def test_f34_a_kept_connection_that_was_closed_costs_nobody_an_upload(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue([*OK, Close()], OK)
    async with RawCaller(path.port) as caller:
        small = proxied(path.relay_key, "POST", "/acme/v1/plain", [JSON], b'{"model":"m"}')
        assert (await caller.ask(small)).status == 200
        request = proxied(path.relay_key, "POST", "/acme/v1/plain", [JSON], LARGE)
        assert (await caller.ask(request)).status == 200
    assert [seen.ordinal for seen in upstream.ledger] == [1, 1]


@pytest.mark.parametrize(
    ("tail", "code"),
    [(b'","model":"other"}', b"model_not_allowed"), (b'","model":"m","model":"m"}', b"ambiguous")],
)
async def test_t33_a_model_that_is_not_granted_late_in_the_body_never_reaches_the_upstream_whole(
    path: DataPath, upstream: ScriptedUpstream, tail: bytes, code: bytes
) -> None:
    body = b'{"text":"' + b"x" * (2 * INSPECTED_BYTES) + tail
    async with RawCaller(path.port) as caller:
        answer = await caller.ask(proxied(path.relay_key, "POST", "/acme/v1/plain", [JSON], body))
    assert answer.status in (400, 403)
    assert code in answer.body
    assert upstream.ledger == []
    assert path.records[0].outcome in ("rejected", "upstream_error")


async def test_a_body_with_broken_chunks_is_400(path: DataPath, upstream: ScriptedUpstream) -> None:
    chunks = [bytes(2 * MIB)]
    request = proxied(path.relay_key, "POST", "/acme/v1/files", [BINARY], chunks=chunks)
    async with RawCaller(path.port) as caller:
        answer = await caller.ask(request.removesuffix(b"0\r\n\r\n") + b"zz\r\n")
    assert answer.status == 400
    assert upstream.ledger == []


async def test_f31_a_caller_that_stops_sending_is_408(
    tmp_path: Path, upstream: ScriptedUpstream
) -> None:
    limits = ServerLimits(body_grace_seconds=0.2, body_bytes_per_second=1 << 30, sweep_seconds=0.05)
    hosts = {"m": upstream.url}
    async with DataPath(
        tmp_path, hosts, settings=PROXY_MODE_ON, limits=limits, pathPrefix="acme"
    ) as path:
        request = proxied(path.relay_key, "POST", "/acme/v1/files", [BINARY], LARGE)
        async with RawCaller(path.port) as caller:
            answer = await caller.send(request[: 2 * MIB]).read_answer()
        assert answer.status == 408


async def test_a_caller_that_awaits_it_is_told_to_go_on(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(OK)
    fields = [JSON, ("Expect", "100-continue")]
    request = proxied(path.relay_key, "POST", "/acme/v1/plain", fields, LARGE)
    start = request.index(b"\r\n\r\n") + 4
    async with RawCaller(path.port) as caller:
        caller.send(request[:start])
        assert await caller.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert (await caller.ask(request[start:])).status == 200
    assert upstream.ledger[0].header("expect") is None


async def test_the_next_request_on_the_connection_may_come_with_the_end_of_the_body(
    path: DataPath, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(OK, OK)
    body = in_chunks([LARGE])
    first = proxied(path.relay_key, "POST", "/acme/v1/plain", [JSON], chunks=[LARGE])
    assert first.endswith(body)
    async with RawCaller(path.port) as caller:
        caller.send(first + first)
        answers = [(await caller.read_answer()).status for _ in range(2)]
    assert answers == [200, 200]
    assert [seen.body for seen in upstream.ledger] == [LARGE, LARGE]
