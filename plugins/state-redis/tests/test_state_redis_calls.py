"""How Redis is asked: round trips, batches, calls that nobody waits for any more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Self

import pytest

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.plugin import Hold
from relay_gateway_state_redis import courier
from relay_gateway_state_redis.testing.server import RedisServer

HOLDS = [
    Hold("requests", 1, 1000, 60.0, "sliding-window"),
    Hold("tokens", 500, 1_000_000, 60.0, "token-bucket"),
    Hold("concurrency", 1, 1000, 60.0, "gauge"),
]


class RecordingProxy:
    """Forwards to a server and counts: a round trip begins when the client speaks after an answer,
    or for the first time."""

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._listener: asyncio.Server | None = None
        self.connections = 0
        self.round_trips = 0

    @property
    def url(self) -> str:
        assert self._listener is not None
        return f"redis://127.0.0.1:{self._listener.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> Self:
        self._listener = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._listener is not None
        self._listener.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._server.port)
        answered = [True]

        async def pass_on(
            source: asyncio.StreamReader, target: asyncio.StreamWriter, *, asks: bool
        ) -> None:
            while data := await source.read(65536):
                self.round_trips += asks and answered[0]
                answered[0] = not asks
                target.write(data)
            target.close()

        try:
            await asyncio.gather(
                pass_on(reader, far_writer, asks=True), pass_on(far_reader, writer, asks=False)
            )
        finally:
            writer.close()
            far_writer.close()


@pytest.fixture
async def proxy(server: RedisServer) -> AsyncIterator[RecordingProxy]:
    async with RecordingProxy(server) as proxy:
        yield proxy


async def test_a_request_costs_one_round_trip_to_reserve_and_one_to_settle(
    proxy: RecordingProxy, opened: Any
) -> None:
    store = await opened(proxy.url)
    await store.reserve("first", HOLDS)  # teaches the server the script
    proxy.round_trips = 0
    for number in range(10):
        await store.reserve(f"r{number}", HOLDS)
    assert proxy.round_trips == 10
    for number in range(10):
        await store.settle(f"r{number}", HOLDS, [1, 700, 0])
    assert proxy.round_trips == 20
    assert proxy.connections == 1


async def test_what_is_asked_at_once_travels_together(proxy: RecordingProxy, opened: Any) -> None:
    store = await opened(proxy.url, max_connections=2)
    await store.reserve("first", HOLDS)
    proxy.round_trips = 0
    grants = await asyncio.gather(*(store.reserve(f"r{n}", HOLDS) for n in range(200)))
    assert all(grant.refused == -1 for grant in grants)
    assert proxy.round_trips <= 200 / courier.BATCH + 3
    assert proxy.connections <= 2


async def test_t72_a_call_that_nobody_waits_for_keeps_its_connection(
    proxy: RecordingProxy, opened: Any
) -> None:
    store = await opened(proxy.url)
    for number in range(50):
        call = asyncio.ensure_future(store.reserve(f"gone{number}", HOLDS))
        for _ in range(number % 5):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
    assert (await store.reserve("after", HOLDS)).refused == -1
    assert proxy.connections <= store.config.max_connections


async def test_f39_connections_that_the_server_closed_are_made_anew_unnoticed(
    own_server: RedisServer, opened: Any
) -> None:
    store = await opened(own_server.url)
    await asyncio.gather(*(store.reserve(f"r{n}", HOLDS) for n in range(100)))
    own_server.restart()
    grants = await asyncio.gather(*(store.reserve(f"s{n}", HOLDS) for n in range(100)))
    assert {grant.refused for grant in grants} == {-1}


async def test_closing_ends_the_calls_that_wait(own_server: RedisServer, opened: Any) -> None:
    store = await opened(own_server.url, timeout_seconds=30.0)
    own_server.freeze()
    calls = [asyncio.ensure_future(store.reserve(f"r{n}", HOLDS)) for n in range(300)]
    await asyncio.sleep(0)
    async with asyncio.timeout(5):
        await store.aclose()
        outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(one) for one in outcomes} == {StorageUnavailableError}
    with pytest.raises(StorageUnavailableError, match="not open"):
        await store.reserve("after", HOLDS)


async def test_too_many_waiting_calls_are_refused_at_once(
    own_server: RedisServer, opened: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(courier, "MOST_WAITING", 10)
    store = await opened(own_server.url, max_connections=1)
    own_server.freeze()
    calls = [asyncio.ensure_future(store.reserve(f"r{n}", HOLDS)) for n in range(20)]
    try:
        done, _ = await asyncio.wait(calls, timeout=0.1)
        assert len(done) == 10
        assert all("10 calls are waiting" in str(call.exception()) for call in done)
    finally:
        own_server.thaw()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(not isinstance(one, Exception) for one in outcomes) == 10


async def test_one_broken_counter_fails_nobody_elses_call(server: RedisServer, opened: Any) -> None:
    store = await opened(server.url)
    server.command("LPUSH", "{relay}:c:broken", "no counter")
    broken = [Hold("broken", 1, 10, 60.0, "fixed-window")]
    outcomes = await asyncio.gather(
        *(store.reserve(f"r{n}", broken if n == 5 else HOLDS) for n in range(10)),
        return_exceptions=True,
    )
    failed = [n for n, one in enumerate(outcomes) if isinstance(one, Exception)]
    assert failed == [5]
