from __future__ import annotations

import asyncio

import pytest

from relay_gateway.errors import (
    UpstreamClosedError,
)
from relay_gateway.http.client import HttpClient
from relay_gateway.http.pool import PoolLimits
from relay_gateway.http.target import Target
from relay_gateway.testing.script import (
    Close,
    Hang,
    Reset,
    Send,
    WaitFor,
    response,
)
from relay_gateway.testing.upstream import ScriptedUpstream

from .asking import OK, fetch, post


async def test_a_finished_connection_carries_the_next_request(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(*[OK] * 3)
    target = Target.from_url(upstream.url)
    assert [(await fetch(client, target)).reused for _ in range(3)] == [False, True, True]
    assert len(upstream.connections) == 1


async def test_equal_targets_share_connections_and_others_do_not(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(*[OK] * 3)
    await fetch(client, Target.from_url(upstream.url))
    assert (await fetch(client, Target.from_url(upstream.url + "/v1"))).reused
    other = Target.from_url(upstream.url, idle_timeout=7)
    assert not (await fetch(client, other)).reused


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx", id="close"
        ),
        pytest.param(b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", id="http/1.0"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nxy", id="trailing byte"),
        pytest.param(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx" * 2, id="second answer"),
    ],
)
async def test_f49_a_connection_is_not_reused_after(
    client: HttpClient, upstream: ScriptedUpstream, answer: bytes
) -> None:
    upstream.enqueue([Send(answer)], response(200, b"second"))
    target = Target.from_url(upstream.url)
    first = await client.send(target, post())
    assert await first.read(10) == b"x"
    second = await client.send(target, post())
    assert (await second.read(10), second.reused) == (b"second", False)


async def test_an_http_1_0_answer_that_asks_for_it_keeps_the_connection(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    answer = b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\nx"
    upstream.enqueue([Send(answer)], OK)
    target = Target.from_url(upstream.url)
    await fetch(client, target)
    assert (await fetch(client, target)).reused


async def test_f49_an_answer_nobody_asked_for_closes_the_idle_connection(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    speak = asyncio.Event()
    stray = Send(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong")
    upstream.enqueue([*OK, WaitFor(speak), stray, Hang()], response(200, b"right"))
    target = Target.from_url(upstream.url)
    await fetch(client, target)
    speak.set()
    await upstream.wait_for_cancellation()
    exchange = await client.send(target, post())
    assert (await exchange.read(10), exchange.reused) == (b"right", False)


async def test_f34_a_connection_idle_for_too_long_is_closed(upstream: ScriptedUpstream) -> None:
    client = HttpClient(limits=PoolLimits(idle=0.05))
    upstream.enqueue(OK, OK)
    target = Target.from_url(upstream.url)
    await fetch(client, target)
    await upstream.until(lambda: upstream.open_connections == 0)
    assert not (await fetch(client, target)).reused
    await client.aclose()


@pytest.mark.parametrize("ending", [Close(), Reset()])
async def test_f34_keepalive_race_retries_once(
    client: HttpClient, upstream: ScriptedUpstream, ending: Close | Reset
) -> None:
    upstream.enqueue(OK, [ending], response(200, b"again"))
    target = Target.from_url(upstream.url)
    await fetch(client, target)
    exchange = await client.send(target, post(b"nonce"))
    assert await exchange.read(10) == b"again"
    assert (exchange.reused, exchange.resent) == (False, True)
    assert [seen.body for seen in upstream.ledger[1:]] == [b"nonce", b"nonce"]
    assert [seen.connection_id for seen in upstream.ledger] == [1, 1, 2]


async def test_f34_the_second_connection_gets_no_second_chance(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(OK, [Close()], [Close()])
    target = Target.from_url(upstream.url)
    await fetch(client, target)
    with pytest.raises(UpstreamClosedError) as caught:
        await client.send(target, post())
    assert caught.value.sent
    assert len(upstream.ledger) == 3


async def test_f34_nothing_is_sent_again_once_a_byte_came_back(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(OK, [Send(b"H"), Close()])
    target = Target.from_url(upstream.url)
    await fetch(client, target)
    with pytest.raises(UpstreamClosedError):
        await client.send(target, post())
    assert len(upstream.ledger) == 2


async def test_f34_the_second_try_finds_room_in_a_full_pool(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(OK, [Close()], OK)
    target = Target.from_url(upstream.url, max_connections=1)
    await fetch(client, target)
    assert (await fetch(client, target)).resent


async def test_f34_the_second_try_takes_the_place_of_an_idle_connection(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(OK, OK)
    target = Target.from_url(upstream.url, max_connections=1)
    await fetch(client, target)
    pool = client._pools[target]
    connection = await pool.acquire_new()
    await upstream.until(lambda: len(upstream.connections) == 2)
    await upstream.until(lambda: upstream.open_connections == 1)
    connection.close()
    assert not (await fetch(client, target)).reused


async def test_f33_a_reset_on_a_fresh_connection_is_not_tried_again(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue([Reset()], OK)
    with pytest.raises(UpstreamClosedError):
        await client.send(Target.from_url(upstream.url), post())
    assert len(upstream.ledger) == 1


async def test_f48_an_early_refusal_stops_the_upload_and_ends_the_connection() -> None:
    async with ScriptedUpstream(early=True) as upstream:
        client = HttpClient()
        upstream.enqueue([*response(413, b"too large"), Hang()], OK)
        target = Target.from_url(upstream.url)
        body = bytes(64 * 1024 * 1024)
        exchange = await client.send(target, post(body))
        assert (exchange.status, await exchange.read(100)) == (413, b"too large")
        await upstream.wait_for_cancellation()
        assert len(upstream.connections[0].received) < len(body)
        assert not (await fetch(client, target)).reused
        await client.aclose()


async def test_f48_a_connection_with_half_a_request_is_not_reused_though_it_has_drained() -> None:
    async with ScriptedUpstream(early=True) as upstream:
        client = HttpClient()
        finish = asyncio.Event()
        answer = b"HTTP/1.1 413 No\r\nContent-Length: 2\r\n\r\n"
        upstream.enqueue([Send(answer), WaitFor(finish), Send(b"no"), Hang()], OK)
        target = Target.from_url(upstream.url)
        body = bytes(64 * 1024 * 1024)
        exchange = await client.send(target, post(body))
        reading = asyncio.create_task(exchange.read(10))
        await nothing_more_arrives_at(upstream)
        assert len(upstream.connections[0].received) < len(body)
        finish.set()
        assert await reading == b"no"
        async with asyncio.timeout(5):
            assert not (await fetch(client, target)).reused
        await client.aclose()


async def nothing_more_arrives_at(upstream: ScriptedUpstream) -> None:
    quiet, seen = 0, -1
    while quiet < 50:
        await asyncio.sleep(0)
        received = len(upstream.connections[0].received)
        quiet, seen = (quiet + 1 if received == seen else 0), received
