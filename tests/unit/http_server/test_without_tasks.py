"""Requests that are answered at once, without a task for each."""

from __future__ import annotations

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.exchange import ServerExchange
from relay_gateway.testing.fed_connection import FedConnection

PIPELINED = 5000
REQUEST = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"


def answer_at_once(exchange: ServerExchange) -> None:
    exchange.respond(200, b"", exchange.take_body(10))


async def test_t30_thousands_of_pipelined_requests_are_answered_in_order_and_in_a_flat_stack() -> (
    None
):
    bodies = iter(range(PIPELINED))

    def count(exchange: ServerExchange) -> None:
        exchange.respond(200, b"", b"%d" % next(bodies))

    wire = FedConnection(count)
    wire.receive(REQUEST * PIPELINED)
    answers = wire.transport.sent.split(b"HTTP/1.1 200 OK")[1:]
    assert [answer.rpartition(b"\r\n\r\n")[2] for answer in answers] == [
        b"%d" % number for number in range(PIPELINED)
    ]
    assert not wire.state.tasks
    assert not wire.over


async def test_a_refusal_among_pipelined_requests_ends_the_connection() -> None:
    wire = FedConnection(answer_at_once)
    wire.receive(REQUEST + b"BROKEN\r\n\r\n" + REQUEST)
    assert wire.transport.sent.count(b"HTTP/1.1 200 ") == 1
    assert wire.transport.sent.count(b"HTTP/1.1 400 ") == 1
    assert wire.over


async def test_a_handler_that_raises_at_once_is_answered_for() -> None:
    def fail(exchange: ServerExchange) -> None:
        raise ValueError("no")

    def refuse(exchange: ServerExchange) -> None:
        raise RequestRefusedError(403, "no", "Not you.")

    for handler, status in ((fail, b"500"), (refuse, b"403")):
        wire = FedConnection(handler)
        wire.receive(REQUEST)
        assert wire.transport.sent.startswith(b"HTTP/1.1 %b " % status)


async def test_what_began_without_a_task_may_go_on_in_one() -> None:
    async def later(exchange: ServerExchange) -> None:
        exchange.respond(200, b"", b"later")

    wire = FedConnection(lambda exchange: exchange.run(later(exchange)))
    wire.receive(REQUEST)
    assert wire.state.tasks
    await wire.settle()
    assert wire.transport.sent.endswith(b"later")
    assert not wire.state.tasks
