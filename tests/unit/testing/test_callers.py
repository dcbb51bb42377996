"""The caller in memory behaves like a connection, misuse included."""

from __future__ import annotations

import asyncio

import pytest

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.answer import Exchange
from relay_gateway.http.exchange import CallerGoneError, ServerExchange
from relay_gateway.pipeline import ports as ports_module
from relay_gateway.pipeline.ports import Caller
from relay_gateway.testing.callers import FakeCaller
from relay_gateway.testing.exchanges import FakeExchange


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
    open_before_the_abort = not caller.finished
    caller.abort()
    assert open_before_the_abort
    assert caller.chunks == [b"a", b"b"]
    assert caller.aborted
    assert caller.finished
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
    gone = FakeCaller(body=None)
    gone.on_disconnect = lambda: pytest.fail("the reader is told by its error")
    reading = asyncio.create_task(gone.read_body(10))
    await asyncio.sleep(0)
    gone.disconnect()
    with pytest.raises(CallerGoneError):
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
    assert not caller.disconnected


async def test_whoever_asks_late_is_told_at_once() -> None:
    caller = FakeCaller()
    caller.disconnect()
    caller.block()
    told: list[object] = []
    caller.on_disconnect = lambda: told.append("gone")
    caller.on_flow = told.append
    assert told == ["gone", False]


async def test_flow_is_told_while_the_answer_is_open() -> None:
    caller = FakeCaller()
    flow: list[bool] = []
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


def test_an_answer_begins_once_and_before_its_body() -> None:
    with pytest.raises(RuntimeError, match="before the answer was started"):
        FakeCaller().write(b"x")
    with pytest.raises(RuntimeError, match="had not been started"):
        FakeCaller().finish()
    with pytest.raises(RuntimeError, match="started twice"):
        answered().start(200, b"", None)
    with pytest.raises(RuntimeError, match="lacks its CRLF"):
        FakeCaller().start(200, b"a: b", None)


def test_nothing_changes_an_answer_after_its_end() -> None:
    caller = answered()
    caller.write(b"more")
    caller.abort()
    caller.finish()
    assert caller.body == b"ok"
    assert not caller.aborted


@pytest.mark.parametrize("written", [b"ab", b"abcd"])
def test_an_answer_of_another_length_than_announced_is_aborted(written: bytes) -> None:
    caller = FakeCaller()
    caller.start(200, b"", 3)
    caller.write(written)
    caller.finish()
    assert caller.aborted


def test_an_answer_to_head_has_no_body() -> None:
    caller = FakeCaller("HEAD")
    caller.respond(200, b"", b"text")
    assert (caller.body, caller.bytes_out, caller.aborted) == (b"", 0, False)


@pytest.mark.parametrize(
    ("fake", "real"), [(FakeCaller(), ServerExchange), (FakeExchange(), Exchange)]
)
def test_the_fakes_have_everything_that_the_ports_ask_for(fake: object, real: type) -> None:
    ports = {ServerExchange: ports_module.Caller, Exchange: ports_module.Exchange}
    names = {name for name in dir(ports[real]) if not name.startswith("_")}
    names |= set(ports[real].__annotations__)
    assert {name for name in names if not hasattr(fake, name)} == set()
    assert {name for name in names if not hasattr(real, name)} == set()
