"""The caller in memory behaves like a connection, misuse included."""

from __future__ import annotations

import asyncio

import pytest

from relay_gateway.errors import RequestRefusedError
from relay_gateway.pipeline.ports import Caller
from relay_gateway.testing.callers import FakeCaller


class LeftError(Exception):
    """The caller went away."""


def answered() -> FakeCaller:
    caller = FakeCaller()
    caller.respond(200, b"a: b\r\n", b"ok")
    return caller


async def test_it_records_a_whole_answer() -> None:
    fake = FakeCaller("POST", "/v1/x", headers=[(b"A", b"b")], body=b"{}", query=b"q=1")
    caller: Caller = fake
    assert await caller.read_body(2) == b"{}"
    assert (caller.headers.get(b"a"), fake.content_length, fake.query) == (b"b", 2, b"q=1")
    caller.respond(201, b"content-type: x\r\nx-a: 1: 2\r\n", b"done")
    assert (fake.status, fake.body, fake.bytes_out, fake.length) == (201, b"done", 4, 4)
    assert fake.answer_headers.fields == [(b"content-type", b"x"), (b"x-a", b"1: 2")]
    assert fake.started
    assert fake.finished
    assert not fake.aborted


async def test_it_records_a_stream_piece_by_piece() -> None:
    caller = FakeCaller()
    caller.start(200, b"", None)
    caller.write(b"a")
    caller.write(b"b")
    open_before_the_abort = not caller.ended
    caller.abort()
    assert open_before_the_abort
    assert caller.chunks == [b"a", b"b"]
    assert caller.aborted
    assert caller.ended
    assert "aborted" in repr(caller)


async def test_a_body_beyond_the_limit_is_refused() -> None:
    with pytest.raises(RequestRefusedError) as caught:
        await FakeCaller(body=b"abc").read_body(2)
    assert (caught.value.status, caught.value.code) == (413, "request_too_large")


async def test_a_body_may_come_later_or_never() -> None:
    caller = FakeCaller(body=None)
    reading = asyncio.create_task(caller.read_body(10))
    await asyncio.sleep(0)
    caller.send_body(b"late")
    assert await reading == b"late"
    gone = FakeCaller(body=None, gone=LeftError())
    reading = asyncio.create_task(gone.read_body(10))
    await asyncio.sleep(0)
    gone.disconnect()
    with pytest.raises(LeftError):
        await reading


async def test_a_disconnect_is_told_once_and_swallows_the_rest() -> None:
    caller = FakeCaller()
    told: list[None] = []
    caller.on_disconnect = lambda: told.append(None)
    caller.start(200, b"", 10)
    caller.disconnect()
    caller.disconnect()
    caller.write(b"lost")
    caller.finish()
    assert told == [None]
    assert caller.body == b""
    assert caller.bytes_out == 0


async def test_a_disconnect_after_the_end_is_not_told() -> None:
    caller = answered()
    caller.on_disconnect = lambda: pytest.fail("told after the end")
    caller.disconnect()
    assert caller.disconnected


async def test_flow_is_told_while_the_answer_is_open() -> None:
    caller = FakeCaller()
    flow: list[bool] = []
    caller.block()
    caller.on_flow = flow.append
    caller.start(200, b"", None)
    caller.block()
    caller.unblock()
    caller.finish()
    caller.block()
    assert flow == [False, True]


async def test_it_can_be_waited_for() -> None:
    caller = FakeCaller()
    asyncio.get_running_loop().call_soon(caller.respond, 200, b"", b"")
    await caller.wait_for_end()
    with pytest.raises(AssertionError, match="not within"):
        await caller.until(lambda: caller.status == 500, seconds=0.01)


def test_an_answer_may_not_break_its_own_rules() -> None:
    with pytest.raises(AssertionError, match="write\\(\\) before start"):
        FakeCaller().write(b"x")
    with pytest.raises(AssertionError, match="finish\\(\\) before start"):
        FakeCaller().finish()
    with pytest.raises(AssertionError, match="called twice"):
        answered().start(200, b"", None)
    with pytest.raises(AssertionError, match="after finish"):
        answered().write(b"x")
    with pytest.raises(AssertionError, match="ended already"):
        answered().finish()
    with pytest.raises(AssertionError, match="after finish"):
        answered().abort()
    with pytest.raises(AssertionError, match="lacks its CRLF"):
        FakeCaller().start(200, b"a: b", None)


def test_an_answer_must_have_the_length_it_announced() -> None:
    caller = FakeCaller()
    caller.start(200, b"", 3)
    caller.write(b"ab")
    with pytest.raises(AssertionError, match="2 bytes were written, 3 were announced"):
        caller.finish()
