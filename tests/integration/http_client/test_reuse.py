from __future__ import annotations

import asyncio
import random

import pytest

from relay_gateway.errors import (
    UpstreamClosedError,
    UpstreamConnectError,
    UpstreamOverloadedError,
    UpstreamTimeoutError,
)
from relay_gateway.http.client import Exchange, HttpClient
from relay_gateway.http.pool import PoolLimits
from relay_gateway.http.target import Target
from relay_gateway.plugin import UpstreamRequest
from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.script import (
    Close,
    Hang,
    Reset,
    Script,
    Send,
    WaitFor,
    response,
    sse_response,
)
from relay_gateway.testing.upstream import ScriptedUpstream

OK = response(200, b"hello")


def post(body: bytes = b"{}") -> UpstreamRequest:
    return UpstreamRequest(b"/", b"", body)


async def fetch(client: HttpClient, target: Target, body: bytes = b"{}") -> Exchange:
    exchange = await client.send(target, post(body))
    await exchange.read(1 << 20)
    return exchange


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
        assert not (await fetch(client, target)).reused
        await client.aclose()


async def nothing_more_arrives_at(upstream: ScriptedUpstream) -> None:
    quiet, seen = 0, -1
    while quiet < 50:
        await asyncio.sleep(0)
        received = len(upstream.connections[0].received)
        quiet, seen = (quiet + 1 if received == seen else 0), received


async def test_t72_a_cancelled_send_closes_its_connection(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(OK, [Hang()], OK)
    target = Target.from_url(upstream.url)
    await fetch(client, target)
    sending = asyncio.create_task(client.send(target, post()))
    await upstream.wait_for_requests(2)
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    await upstream.wait_for_cancellation()
    assert not (await fetch(client, target)).reused


async def test_t72_a_cancelled_exchange_delivers_nothing_more_and_closes_its_connection(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    upstream.enqueue(sse_response([b"one"], ending=[Hang()]), OK)
    target = Target.from_url(upstream.url)
    exchange = await client.send(target, post())

    class CancelsAtOnce:
        calls = 0

        def data(self, chunk: bytes) -> None:
            self.calls += 1
            exchange.cancel()
            exchange.cancel()

        def end(self) -> None:
            self.calls += 1

        def failed(self, error: Exception) -> None:
            self.calls += 1

    receiver = CancelsAtOnce()
    exchange.receive(receiver)
    await upstream.wait_for_cancellation()
    assert receiver.calls == 1
    assert not (await fetch(client, target)).reused


async def test_t72_cancelling_a_finished_exchange_does_not_touch_its_connection(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    busy = asyncio.Event()
    upstream.enqueue(OK, [WaitFor(busy), *response(200, b"second")])
    target = Target.from_url(upstream.url)
    first = await fetch(client, target)
    second = asyncio.create_task(client.send(target, post()))
    await upstream.wait_for_requests(2)
    first.pause()
    first.cancel()
    busy.set()
    exchange = await second
    assert (await exchange.read(10), exchange.reused) == (b"second", True)


def echo_nonce(request: SeenRequest) -> Script:
    return sse_response([request.body, b"-", request.body])


async def test_t72_random_cancellation_never_gives_an_answer_to_another_caller() -> None:
    chance = random.Random(20)
    async with ScriptedUpstream(echo_nonce) as upstream:
        client = HttpClient()
        target = Target.from_url(upstream.url, max_connections=8)

        async def one(nonce: bytes) -> bytes:
            exchange = await client.send(target, post(nonce))
            return await exchange.read(1000)

        async def caller(number: int) -> int:
            answered = 0
            for attempt in range(40):
                nonce = b"%d/%d" % (number, attempt)
                task = asyncio.create_task(one(nonce))
                for _ in range(chance.choice([0, 1, 2, 4, 8, 16, 32, 1000])):
                    if task.done():
                        break
                    await asyncio.sleep(0)
                task.cancel()
                try:
                    body = await task
                except asyncio.CancelledError:
                    continue
                assert body == b"%b-%b" % (nonce, nonce)
                answered += 1
            return answered

        answered = sum(await asyncio.gather(*[caller(number) for number in range(8)]))
        await client.aclose()
        assert 0 < answered < 8 * 40
        await upstream.until(lambda: upstream.open_connections == 0)


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


@pytest.mark.parametrize("finished", [True, False])
async def test_f53_a_place_given_to_a_caller_that_leaves_at_that_moment_is_not_lost(
    client: HttpClient, upstream: ScriptedUpstream, *, finished: bool
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
