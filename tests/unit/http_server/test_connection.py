"""One connection on a transport that only remembers, where timing must be exact."""

from __future__ import annotations

import asyncio
import socket

import pytest

from relay_gateway.http.deadlines import NEVER
from relay_gateway.http.exchange import CallerGoneError, ServerExchange
from relay_gateway.http.limits import ServerLimits
from relay_gateway.testing.fed_connection import FedConnection

GET = b"GET /x HTTP/1.1\r\nHost: a\r\n\r\n"


async def answer(exchange: ServerExchange) -> None:
    exchange.respond(200, b"", await exchange.read_body(100))


async def test_small_body_is_whole_when_the_handler_begins() -> None:
    suspended: list[bool] = []

    async def handler(exchange: ServerExchange) -> None:
        reading = exchange.read_body(10)
        try:
            reading.send(None)
        except StopIteration as finished:
            suspended.append(False)
            exchange.respond(200, b"", finished.value)

    wire = FedConnection(handler)
    wire.receive(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi")
    await wire.settle()
    assert suspended == [False]
    assert wire.transport.sent.endswith(b"Content-Length: 2\r\n\r\nhi")
    assert (wire.connection.client_address, wire.state.total_requests) == ("192.0.2.1", 1)
    wire.lose()


async def test_head_and_first_piece_leave_together_and_a_lone_head_at_once() -> None:
    goes_on = asyncio.Event()

    async def handler(exchange: ServerExchange) -> None:
        exchange.start(200, b"X: y\r\n", None)
        await goes_on.wait()
        exchange.write(b"a")
        exchange.finish()

    wire = FedConnection(handler)
    wire.receive(GET)
    await wire.settle()
    assert wire.transport.sent.endswith(b"X: y\r\nTransfer-Encoding: chunked\r\n\r\n")
    goes_on.set()
    await wire.settle()
    assert wire.transport.sent.endswith(b"\r\n\r\n1\r\na\r\n0\r\n\r\n")
    wire.lose()


async def test_f54_caller_that_left_before_the_handler_began_is_still_accounted_for() -> None:
    seen: list[bool] = []
    told: list[None] = []

    async def handler(exchange: ServerExchange) -> None:
        seen.append(exchange.disconnected)
        exchange.on_disconnect = lambda: told.append(None)
        exchange.respond(200, b"", b"")

    wire = FedConnection(handler)
    wire.receive(GET)
    wire.lose()
    await wire.settle()
    assert (seen, told, wire.transport.sent) == ([True], [None], b"")
    assert not wire.state.tasks
    assert not wire.state.connections


async def test_f54_handler_without_a_callback_is_cancelled_when_the_caller_leaves() -> None:
    cancelled: list[None] = []

    async def handler(_exchange: ServerExchange) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(None)
            raise

    wire = FedConnection(handler)
    wire.receive(GET)
    await wire.settle()
    wire.lose()
    await wire.settle()
    assert cancelled == [None]
    assert not wire.state.tasks


async def test_f54_callback_is_not_called_after_the_answer() -> None:
    told: list[None] = []

    async def handler(exchange: ServerExchange) -> None:
        exchange.on_disconnect = lambda: told.append(None)
        exchange.respond(200, b"", b"")

    wire = FedConnection(handler)
    wire.receive(GET)
    await wire.settle()
    wire.lose()
    assert told == []


async def test_f54_reader_of_the_body_gets_an_error_and_no_callback() -> None:
    outcome: list[str] = []

    async def handler(exchange: ServerExchange) -> None:
        exchange.on_disconnect = lambda: outcome.append("callback")
        with pytest.raises(CallerGoneError):
            await exchange.read_body(100)
        outcome.append("error")

    wire = FedConnection(handler)
    wire.receive(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nh")
    await wire.settle()
    wire.lose()
    await wire.settle()
    assert outcome == ["error"]


async def test_writing_to_a_caller_that_left_does_nothing() -> None:
    holder: list[ServerExchange] = []

    async def handler(exchange: ServerExchange) -> None:
        holder.append(exchange)
        exchange.on_disconnect = lambda: None
        exchange.start(200, b"", None)
        await asyncio.Event().wait()

    wire = FedConnection(handler)
    wire.receive(GET)
    await wire.settle()
    sent = wire.transport.sent
    wire.lose()
    exchange = holder[0]
    exchange.write(b"more")
    exchange.finish()
    assert (wire.transport.sent, exchange.bytes_out, exchange.finished) == (sent, 0, True)
    for task in wire.state.tasks:
        task.cancel()
    await wire.settle()


@pytest.mark.parametrize("written", [b"ab", b"abcd"])
async def test_answer_that_is_not_as_long_as_announced_is_cut(written: bytes) -> None:
    async def handler(exchange: ServerExchange) -> None:
        exchange.start(200, b"", 3)
        exchange.write(written)
        exchange.finish()

    wire = FedConnection(handler)
    wire.receive(GET)
    await wire.settle()
    assert wire.transport.closed
    assert not wire.transport.sent.endswith(b"abcd")
    wire.lose()


@pytest.mark.parametrize("status", [204, 304])
async def test_status_without_a_body_has_neither_body_nor_length(status: int) -> None:
    async def handler(exchange: ServerExchange) -> None:
        exchange.respond(status, b"", b"ignored")

    wire = FedConnection(handler)
    wire.receive(GET)
    await wire.settle()
    assert wire.transport.sent.endswith(b"GMT\r\n\r\n")
    assert not wire.transport.closed
    wire.lose()


async def test_f57_body_that_nobody_reads_is_not_collected_without_bound() -> None:
    reads = asyncio.Event()

    async def handler(exchange: ServerExchange) -> None:
        await reads.wait()
        body = await exchange.read_body(10**6)
        exchange.respond(200, b"", b"%d" % len(body))

    wire = FedConnection(handler, ServerLimits(read_ahead_bytes=1000))
    wire.receive(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3000\r\n\r\n")
    wire.receive(bytes(2000))
    assert (wire.transport.reading, wire.connection.deadline) == (False, NEVER)
    reads.set()
    await wire.settle()
    assert wire.transport.reading
    assert wire.connection.deadline < NEVER
    wire.receive(bytes(1000))
    await wire.settle()
    assert wire.transport.sent.endswith(b"3000")
    wire.lose()


async def test_t17_nothing_is_kept_alive_after_broken_chunks() -> None:
    goes_on = asyncio.Event()

    async def handler(exchange: ServerExchange) -> None:
        await goes_on.wait()
        exchange.respond(200, b"", b"")

    wire = FedConnection(handler)
    wire.receive(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n")
    wire.receive(b"aX")
    wire.receive(b"\r\n0\r\n\r\n" + GET)
    goes_on.set()
    await wire.settle()
    assert wire.transport.sent.count(b"HTTP/1.1 ") == 1
    assert b"Connection: close" in wire.transport.sent
    assert wire.transport.ended
    wire.lose()


async def test_f55_answer_left_to_callbacks_goes_on_and_its_caller_is_watched() -> None:
    told: list[None] = []
    left: list[ServerExchange] = []

    async def handler(exchange: ServerExchange) -> None:
        exchange.on_disconnect = lambda: told.append(None)
        exchange.start(200, b"", None)
        left.append(exchange)

    wire = FedConnection(handler)
    wire.receive(GET)
    await wire.settle()
    assert not wire.state.tasks
    left[0].write(b"a")
    assert wire.transport.sent.endswith(b"1\r\na\r\n")
    wire.lose()
    assert told == [None]


async def test_t27_slow_reader_is_spared_while_it_takes_anything() -> None:
    wire = FedConnection(answer, ServerLimits(write_stall_seconds=60))
    wire.receive(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 50\r\n\r\n" + bytes(50))
    wire.transport.waiting = 50
    await wire.settle()
    now = asyncio.get_running_loop().time()
    for left in (40, 30, 20):
        wire.transport.waiting = left
        now += 59
        wire.connection.on_deadline(now)
        assert not wire.transport.is_closing()
    wire.connection.on_deadline(now + 61)
    assert wire.transport.aborted
    assert (socket.SOL_SOCKET, socket.SO_LINGER) in wire.transport.socket.options
    wire.lose()


async def test_t27_body_at_the_lowest_rate_is_accepted() -> None:
    wire = FedConnection(answer, ServerLimits(body_grace_seconds=1, body_bytes_per_second=10))
    wire.receive(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 90\r\n\r\n")
    await wire.settle()
    begun = wire.connection.deadline - 1
    for second in range(1, 9):
        wire.receive(bytes(10))
        wire.connection.on_deadline(begun + second + 0.9)
    wire.receive(bytes(10))
    await wire.settle()
    assert wire.transport.sent.startswith(b"HTTP/1.1 200 ")
    wire.lose()


async def test_handler_that_is_cancelled_by_a_shutdown_says_so() -> None:
    async def handler(_exchange: ServerExchange) -> None:
        await asyncio.Event().wait()

    wire = FedConnection(handler)
    wire.receive(GET)
    await wire.settle()
    for task in wire.state.tasks:
        task.cancel()
    await wire.settle()
    assert wire.transport.sent.startswith(b"HTTP/1.1 503 ")
    wire.lose()


async def test_misuse_of_an_exchange_is_a_programming_error() -> None:
    errors: list[str] = []

    async def handler(exchange: ServerExchange) -> None:
        with pytest.raises(RuntimeError) as raised:
            exchange.write(b"x")
        errors.append(str(raised.value))
        with pytest.raises(RuntimeError) as raised:
            exchange.finish()
        errors.append(str(raised.value))
        exchange.respond(200, b"", b"")
        with pytest.raises(RuntimeError):
            exchange.respond(200, b"", b"")

    wire = FedConnection(handler)
    wire.receive(GET)
    await wire.settle()
    assert ["body" in error for error in errors] == [True, False]
    assert wire.transport.sent.startswith(b"HTTP/1.1 200 ")
    wire.lose()
