"""The upstream exchange in memory keeps the order and the promises of a real one."""

from __future__ import annotations

import asyncio

import pytest

from relay_gateway.errors import UpstreamClosedError
from relay_gateway.pipeline.ports import Exchange
from relay_gateway.testing.exchanges import FakeExchange, RecordingReceiver

BROKEN = UpstreamClosedError("the peer closed")


async def test_what_arrived_before_is_delivered_at_once() -> None:
    fake = FakeExchange(body=b"all")
    exchange: Exchange = fake
    receiver = RecordingReceiver()
    assert fake.body_complete
    exchange.receive(receiver)
    assert receiver.body == b"all"
    assert receiver.ended.is_set()
    assert receiver.error is None
    assert fake.consumed


async def test_pieces_are_delivered_as_they_come() -> None:
    exchange = FakeExchange(headers=[(b"X", b"y")], reused=True)
    receiver = RecordingReceiver()
    exchange.receive(receiver)
    exchange.push(b"a")
    exchange.push(b"b")
    assert receiver.chunks == [b"a", b"b"]
    assert not exchange.body_complete
    exchange.fail(BROKEN)
    assert receiver.error is BROKEN
    assert exchange.headers.get(b"x") == b"y"
    assert exchange.reused


async def test_a_paused_reader_gets_nothing_until_it_resumes() -> None:
    exchange = FakeExchange()
    receiver = RecordingReceiver(lambda _: exchange.pause())
    exchange.receive(receiver)
    exchange.push(b"a")
    exchange.push(b"b")
    exchange.end()
    assert receiver.chunks == [b"a"]
    assert exchange.paused
    exchange.resume()
    assert receiver.chunks == [b"a", b"b"]
    assert not receiver.ended.is_set()
    exchange.resume()
    assert receiver.ended.is_set()


async def test_nothing_comes_after_a_cancel() -> None:
    exchange = FakeExchange()
    receiver = RecordingReceiver()
    exchange.receive(receiver)
    exchange.cancel()
    exchange.push(b"late")
    exchange.end()
    assert exchange.cancelled
    assert receiver.chunks == []
    assert not receiver.ended.is_set()


async def test_a_body_is_read_whole_when_it_has_come() -> None:
    exchange = FakeExchange()
    reading = asyncio.create_task(exchange.read(100))
    await asyncio.sleep(0)
    exchange.push(b"ab")
    await asyncio.sleep(0)
    exchange.push(b"c")
    exchange.end()
    assert await reading == b"abc"
    assert not exchange.cancelled


async def test_reading_stops_at_the_limit_and_gives_up_the_rest() -> None:
    exchange = FakeExchange()
    exchange.push(b"abcdef")
    assert await exchange.read(4) == b"abcd"
    assert exchange.cancelled


async def test_reading_raises_what_broke_it() -> None:
    exchange = FakeExchange()
    exchange.push(b"ab")
    exchange.fail(BROKEN)
    with pytest.raises(UpstreamClosedError):
        await exchange.read(100)


def test_an_exchange_has_one_reader_and_one_end() -> None:
    exchange = FakeExchange(body=b"")
    with pytest.raises(AssertionError, match="ended already"):
        exchange.push(b"more")
    exchange.receive(RecordingReceiver())
    with pytest.raises(AssertionError, match="twice"):
        exchange.receive(RecordingReceiver())


def test_a_receiver_complains_about_a_second_end() -> None:
    receiver = RecordingReceiver()
    receiver.end()
    with pytest.raises(AssertionError, match="ended twice"):
        receiver.failed(BROKEN)
    with pytest.raises(AssertionError, match="after the end"):
        receiver.data(b"x")
