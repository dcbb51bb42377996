from __future__ import annotations

import asyncio
import random

import pytest

from relay_gateway.http.client import Exchange, HttpClient
from relay_gateway.http.target import Target
from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.script import (
    Hang,
    Script,
    WaitFor,
    response,
    sse_response,
)
from relay_gateway.testing.upstream import ScriptedUpstream

from .asking import OK, fetch, post


async def fetch_unread(client: HttpClient, target: Target) -> Exchange:
    exchange = await client.send(target, post())
    for _ in range(1000):
        if exchange.body_complete:
            break
        await asyncio.sleep(0)
    return exchange


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
    exchange = await fetch_unread(client, target)
    assert not exchange.reused
    exchange.receive(receiver)
    assert receiver.calls == 2


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
