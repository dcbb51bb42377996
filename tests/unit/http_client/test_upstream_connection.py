from __future__ import annotations

import asyncio

from relay_gateway.http.outgoing_head import OutgoingRequest
from relay_gateway.http.target import Target
from relay_gateway.http.upstream_connection import UpstreamConnection

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class FakeTransport(asyncio.Transport):
    """Remembers what was written and whether it is being read."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.reading = True
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview[int]) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return self.aborted

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def abort(self) -> None:
        self.aborted = True


class FakeOwner:
    """Counts what a connection tells its pool."""

    def __init__(self) -> None:
        self.released_count = 0
        self.lost_count = 0

    def released(self, connection: UpstreamConnection) -> None:
        self.released_count += 1

    def lost(self, connection: UpstreamConnection) -> None:
        self.lost_count += 1


def connected() -> tuple[UpstreamConnection, FakeTransport, FakeOwner]:
    owner, transport = FakeOwner(), FakeTransport()
    target = Target.from_url("http://127.0.0.1")
    connection = UpstreamConnection(owner, target, asyncio.get_running_loop())
    connection.connection_made(transport)
    return connection, transport, owner


async def test_an_idle_connection_is_read_although_its_last_exchange_had_paused() -> None:
    connection, transport, owner = connected()
    exchange = connection.start(OutgoingRequest(b"GET / HTTP/1.1\r\n", b"", b"GET"))
    exchange.pause()
    before = transport.reading
    connection.data_received(ANSWER)
    assert (before, transport.reading) == (False, True)
    assert owner.released_count == 1
    assert await exchange.read(10) == b"ok"


async def test_a_large_body_waits_for_the_transport_and_a_small_one_goes_with_the_head() -> None:
    connection, transport, _ = connected()
    small = OutgoingRequest(b"POST / HTTP/1.1\r\n", b"body")
    connection.start(small)
    assert transport.written == [small.head + b"body"]
    connection, transport, _ = connected()
    connection.pause_writing()
    body = bytes(3 * 1024 * 1024)
    large = OutgoingRequest(b"POST / HTTP/1.1\r\n", body)
    connection.start(large)
    assert transport.written == [large.head]
    connection.resume_writing()
    assert b"".join(transport.written) == large.head + body


async def test_a_connection_is_lost_once_whatever_happens_to_it() -> None:
    connection, transport, owner = connected()
    exchange = connection.start(OutgoingRequest(b"GET / HTTP/1.1\r\n", b"", b"GET"))
    exchange.cancel()
    connection.close()
    connection.data_received(ANSWER)
    connection.connection_lost(None)
    assert transport.aborted
    assert (owner.released_count, owner.lost_count) == (0, 1)
