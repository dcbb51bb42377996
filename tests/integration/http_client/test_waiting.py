from __future__ import annotations

import asyncio

import pytest

from relay_gateway.errors import (
    UpstreamClosedError,
    UpstreamConnectError,
    UpstreamOverloadedError,
    UpstreamTimeoutError,
)
from relay_gateway.http.client import HttpClient
from relay_gateway.http.pool import PoolLimits
from relay_gateway.http.target import Target
from relay_gateway.testing.script import (
    Hang,
    Send,
    WaitFor,
    sse_response,
)
from relay_gateway.testing.upstream import ScriptedUpstream

from .asking import OK, fetch, post


async def test_f53_callers_wait_their_turn_for_a_connection(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    release = asyncio.Event()
    upstream.enqueue([WaitFor(release), *OK], OK, OK)
    target = Target.from_url(upstream.url, max_connections=1)
    tasks = [asyncio.create_task(fetch(client, target, b"%d" % number)) for number in range(3)]
    await upstream.wait_for_requests(1)
    release.set()
    await asyncio.gather(*tasks)
    assert [seen.body for seen in upstream.ledger] == [b"0", b"1", b"2"]
    assert len(upstream.connections) == 1


async def test_f53_a_full_host_is_refused_soon_and_does_not_touch_another(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue([Hang()])
    hung = Target.from_url(upstream.url, max_connections=1)
    holder = asyncio.create_task(client.send(hung, post()))
    await upstream.wait_for_requests(1)
    with pytest.raises(UpstreamOverloadedError, match="maxConnections") as caught:
        await client.send(hung, post())
    assert not caught.value.sent
    upstream.enqueue(OK)
    assert (await fetch(client, Target.from_url(upstream.url))).status == 200
    holder.cancel()


@pytest.mark.parametrize("leaves_first", [True, False])
@pytest.mark.parametrize("finished", [True, False])
async def test_f53_a_place_given_to_a_caller_that_leaves_at_that_moment_is_not_lost(
    client: HttpClient, upstream: ScriptedUpstream, *, finished: bool, leaves_first: bool
) -> None:
    go_on = asyncio.Event()
    upstream.enqueue(
        [Send(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"), WaitFor(go_on), Send(b"x")], OK
    )
    target = Target.from_url(upstream.url, max_connections=1)
    holder = await client.send(target, post())
    waiter = asyncio.create_task(client.send(target, post()))
    await asyncio.sleep(0)

    class LeavesAtTheEnd:
        def data(self, chunk: bytes) -> None: ...

        def end(self) -> None:
            waiter.cancel()

        def failed(self, error: Exception) -> None: ...

    holder.receive(LeavesAtTheEnd())
    if leaves_first:
        waiter.cancel()
    if finished:
        go_on.set()
    else:
        holder.cancel()
        waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert (await fetch(client, target)).reused is finished
    assert len(upstream.ledger) == 2


async def test_f53_the_line_for_a_connection_is_bounded(upstream: ScriptedUpstream) -> None:
    client = HttpClient(limits=PoolLimits(wait=30, waiting=1))
    upstream.enqueue([Hang()])
    target = Target.from_url(upstream.url, max_connections=1)
    held = [asyncio.create_task(client.send(target, post())) for _ in range(2)]
    await upstream.wait_for_requests(1)
    with pytest.raises(UpstreamOverloadedError, match="waiting already"):
        await client.send(target, post())
    held[1].cancel()
    await asyncio.wait(held[1:])
    held.append(asyncio.create_task(client.send(target, post())))
    await asyncio.sleep(0)
    assert not held[2].done(), "who left the line no longer counts"
    for task in held:
        task.cancel()
    await asyncio.gather(*held, return_exceptions=True)
    upstream.enqueue(OK)
    assert (await fetch(client, target)).status == 200
    await client.aclose()


async def test_a_place_is_free_again_after_a_connection_could_not_be_opened(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    target = Target.from_url(upstream.url, max_connections=1)
    await upstream.aclose()
    for _ in range(3):
        with pytest.raises(UpstreamConnectError):
            await client.send(target, post())
    await upstream.start()
    upstream.enqueue(OK)
    assert (await fetch(client, target)).status == 200


async def test_idle_connections_of_targets_that_are_gone_are_closed(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(OK, OK)
    kept = Target.from_url(upstream.url)
    gone = Target.from_url(upstream.url, idle_timeout=9)
    await fetch(client, kept)
    await fetch(client, gone)
    client.retain([kept])
    await upstream.until(lambda: upstream.open_connections == 1)
    upstream.enqueue(OK)
    assert (await fetch(client, kept)).reused


async def test_a_busy_connection_of_a_target_that_is_gone_closes_when_it_is_done(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    release = asyncio.Event()
    upstream.enqueue([WaitFor(release), *OK])
    sending = asyncio.create_task(fetch(client, Target.from_url(upstream.url)))
    await upstream.wait_for_requests(1)
    client.retain([])
    release.set()
    assert (await sending).status == 200
    await upstream.until(lambda: upstream.open_connections == 0)


async def test_closing_the_client_fails_what_is_under_way_and_refuses_what_comes(
    upstream: ScriptedUpstream,
) -> None:
    client = HttpClient()
    upstream.enqueue([Hang()])
    target = Target.from_url(upstream.url)
    sending = asyncio.create_task(client.send(target, post()))
    await upstream.wait_for_requests(1)
    await client.aclose()
    with pytest.raises(UpstreamClosedError):
        await sending
    with pytest.raises(UpstreamConnectError, match="closing"):
        await client.send(target, post())


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nX-Slow: "])
async def test_f36_a_head_that_does_not_come_in_time_is_a_timeout(
    client: HttpClient, upstream: ScriptedUpstream, start: bytes
) -> None:
    upstream.enqueue([Send(start), Hang()], OK)
    target = Target.from_url(upstream.url, first_byte_timeout=0.1)
    with pytest.raises(UpstreamTimeoutError) as caught:
        await client.send(target, post())
    assert (caught.value.phase, caught.value.sent) == ("first_byte", True)
    await upstream.wait_for_cancellation()
    assert not (await fetch(client, target)).reused


async def test_f37_silence_inside_a_body_is_a_timeout(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(sse_response([b"one"], ending=[Hang()]))
    exchange = await client.send(Target.from_url(upstream.url, idle_timeout=0.1), post())
    with pytest.raises(UpstreamTimeoutError) as caught:
        await exchange.read(1000)
    assert caught.value.phase == "idle"


async def test_f37_a_stream_that_keeps_talking_outlives_its_idle_timeout(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(sse_response([b"x"] * 15, delay=0.02))
    exchange = await client.send(Target.from_url(upstream.url, idle_timeout=0.15), post())
    assert await exchange.read(1000) == b"x" * 15


async def test_f37_silence_that_the_receiver_asked_for_does_not_count(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(
        [*sse_response([b"one"], ending=[]), Hang()],
        sse_response([b"x"] * 15, delay=0.02),
    )
    target = Target.from_url(upstream.url, idle_timeout=0.1)
    paused = await client.send(target, post())
    paused.pause()
    await fetch(client, target)
    assert upstream.cancellations == []
    paused.resume()
    with pytest.raises(UpstreamTimeoutError):
        await paused.read(1000)


async def test_a_stream_that_never_ends_is_bounded_by_the_total_timeout(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(sse_response([b"x"] * 1000, delay=0.01))
    exchange = await client.send(Target.from_url(upstream.url, total_timeout=0.15), post())
    with pytest.raises(UpstreamTimeoutError) as caught:
        await exchange.read(10_000)
    assert caught.value.phase == "total"
