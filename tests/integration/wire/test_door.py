"""More connections than there may be: who finds no room is told so, and nobody else notices."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import ip_network

import pytest

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.door import MAX_LEAVING, Door
from relay_gateway.http.exchange import ServerExchange
from relay_gateway.http.limits import ServerLimits
from relay_gateway.testing.inference_server import InferenceServer
from relay_gateway.testing.wire import WireCaller

ASK = b"GET /a HTTP/1.1\r\nHost: a\r\n\r\n"
NARROW = ServerLimits(connections_per_address=3, linger_seconds=0.3, sweep_seconds=0.05)


async def hello(exchange: ServerExchange) -> None:
    exchange.respond(200, b"", b"hello")


@contextmanager
def callers(port: int, count: int) -> Iterator[list[WireCaller]]:
    with ExitStack() as stack:
        yield [stack.enter_context(WireCaller(port)) for _ in range(count)]


def test_t27_one_connection_too_many_of_an_address_is_answered_429_and_closed() -> None:
    with InferenceServer(hello, NARROW) as server, callers(server.port, 3) as honest:
        for caller in honest:
            assert caller.send(ASK).read_answer().body == b"hello"
        with WireCaller(server.port) as late:
            refused = late.send(ASK).read_answer()
            assert (refused.status, b"too_many_connections" in refused.body) == (429, True)
            assert refused.headers.get(b"retry-after") == b"1"
            assert refused.headers.get(b"connection") == b"close"
            assert late.is_closed()
        for caller in honest:
            assert caller.send(ASK).read_answer().body == b"hello"
        assert server.open_connections == 3


def test_t27_a_place_that_is_left_is_free_for_the_next() -> None:
    with InferenceServer(hello, NARROW) as server, callers(server.port, 2):
        for _ in range(10):
            with WireCaller(server.port) as caller:
                assert caller.send(ASK).read_answer().body == b"hello"
                caller.send(b"GET /a HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                assert caller.read_answer().body == b"hello"
                assert caller.is_closed()


def test_t41_one_connection_too_many_in_all_is_answered_503() -> None:
    limits = ServerLimits(connections=2, linger_seconds=0.3, sweep_seconds=0.05)
    with InferenceServer(hello, limits) as server, callers(server.port, 2) as honest:
        assert honest[0].send(ASK).read_answer().body == b"hello"
        assert honest[1].send(ASK).read_answer().body == b"hello"
        with WireCaller(server.port) as late:
            refused = late.send(ASK).read_answer()
        assert (refused.status, b"overloaded" in refused.body) == (503, True)


def test_t27_trusted_proxies_are_not_counted_by_address() -> None:
    limits = ServerLimits(connections_per_address=1, uncounted=(ip_network("127.0.0.0/8"),))
    with InferenceServer(hello, limits) as server, callers(server.port, 8) as proxies:
        for proxy in proxies:
            assert proxy.send(ASK).read_answer().body == b"hello"


def test_t27_many_at_once_that_find_no_room_leave_those_inside_alone() -> None:
    with InferenceServer(hello, NARROW) as server, callers(server.port, 3) as honest:
        for caller in honest:
            assert caller.send(ASK).read_answer().body == b"hello"
        with callers(server.port, 2 * MAX_LEAVING) as crowd:
            assert honest[0].send(ASK).read_answer().body == b"hello"
            told = [answer_or_end(caller) for caller in crowd]
        assert set(told) <= {429, None}
        assert 1 <= told.count(429) <= MAX_LEAVING
        assert honest[1].send(ASK).read_answer().body == b"hello"
        assert server.open_connections == 3


def answer_or_end(caller: WireCaller) -> int | None:
    try:
        return caller.read_answer().status
    except (EOFError, ConnectionError):
        return None


class Transport(asyncio.Transport):
    """Takes what it is given, and can be ended."""

    def __init__(self) -> None:
        super().__init__()
        self.protocol: asyncio.BaseProtocol | None = None
        self.said = b""

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.said += data

    def can_write_eof(self) -> bool:
        return False

    def abort(self) -> None:
        assert isinstance(self.protocol, asyncio.Protocol)
        self.protocol.connection_lost(None)


def word(refusal: RequestRefusedError) -> bytes:
    return f"{refusal.status}".encode()


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("", "", False),
    ],
)
async def test_t27_addresses_of_one_caller_are_counted_together(
    first: str, second: str, together: bool
) -> None:
    door = Door(ServerLimits(connections_per_address=1), word)
    assert door.lets_in(Transport(), first)
    assert door.lets_in(Transport(), second) is not together
    assert door.refused["address"] == together
    door.leave(first)
    assert door.lets_in(Transport(), first)


async def test_t27_those_sent_away_take_no_room_from_others_and_are_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    door = Door(ServerLimits(connections=3, connections_per_address=1), word)
    assert door.lets_in(Transport(), "10.0.0.1")
    sent_away = [Transport() for _ in range(MAX_LEAVING + 5)]
    for transport in sent_away:
        assert not door.lets_in(transport, "10.0.0.1")
    assert [one.said for one in sent_away] == [b"429"] * MAX_LEAVING + [b""] * 5
    assert door.lets_in(Transport(), "10.0.0.2")
    assert door.open == 2
    assert door.refused == {"address": MAX_LEAVING + 5}
    assert len([r for r in caplog.records if "max_connections_per_address" in r.message]) == 1
    for transport in sent_away[:MAX_LEAVING]:
        transport.abort()
    again = Transport()
    assert not door.lets_in(again, "10.0.0.1")
    assert again.said == b"429"
    again.abort()
