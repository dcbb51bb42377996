from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ipaddress import ip_address, ip_network

import pytest

from relay_gateway.errors import UpstreamConnectError, UpstreamTimeoutError
from relay_gateway.http.client import HttpClient
from relay_gateway.http.egress import Address
from relay_gateway.http.race import _close_late_winner, connect_first
from relay_gateway.http.resolve import SystemResolver
from relay_gateway.http.target import Target
from relay_gateway.plugin import UpstreamRequest
from relay_gateway.testing.resolver import FakeResolver
from relay_gateway.testing.upstream import ScriptedUpstream

from .asking import OK

REQUEST = UpstreamRequest(b"/", b"authorization: Bearer canary\r\n", b"{}")
LOOPBACK = ip_address("127.0.0.1")
OTHER_LOOPBACK = ip_address("127.0.0.2")


@contextmanager
def deaf_port() -> Iterator[tuple[str, int]]:
    """An address whose connections are neither accepted nor refused: its line is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.2", 0))
        listener.listen(0)
        callers = [socket.socket() for _ in range(3)]
        for caller in callers:
            caller.setblocking(False)
            caller.connect_ex(listener.getsockname())
        yield listener.getsockname()
        for caller in callers:
            caller.close()


async def test_f31_a_refused_connection_is_reported_as_unreachable(client: HttpClient) -> None:
    async with ScriptedUpstream() as upstream:
        target = Target.from_url(upstream.url)
    with pytest.raises(UpstreamConnectError, match="cannot be reached") as caught:
        await client.send(target, REQUEST)
    assert not caught.value.sent


async def test_f31_a_host_that_does_not_answer_takes_no_longer_than_the_connect_timeout(
    client: HttpClient,
) -> None:
    with deaf_port() as (host, port):
        target = Target.from_url(f"http://{host}:{port}", connect_timeout=0.1)
        with pytest.raises(UpstreamTimeoutError) as caught:
            await client.send(target, REQUEST)
    assert (caught.value.phase, caught.value.sent) == ("connect", False)


async def test_f31_a_name_that_does_not_exist_is_reported_as_unreachable(
    client: HttpClient,
) -> None:
    with pytest.raises(UpstreamConnectError, match="cannot be resolved"):
        await client.send(Target.from_url(f"http://{'x' * 64}.test"), REQUEST)


async def test_f31_a_slow_name_server_is_bounded_by_the_connect_timeout() -> None:
    class Silent:
        async def resolve(self, host: str, port: int) -> Sequence[Address]:
            await asyncio.Event().wait()
            raise AssertionError

    client = HttpClient(resolver=Silent())
    with pytest.raises(UpstreamTimeoutError):
        await client.send(Target.from_url("http://slow.test", connect_timeout=0.05), REQUEST)
    await client.aclose()


async def test_f31_one_question_per_name_is_asked_and_its_answer_remembered() -> None:
    asked = 0

    class Counting(SystemResolver):
        async def _ask(self, host: str, port: int) -> Sequence[Address]:
            nonlocal asked
            asked += 1
            await asyncio.sleep(0)
            return (LOOPBACK,)

    resolver = Counting(ttl=60)
    await asyncio.gather(*[resolver.resolve("a.test", 80) for _ in range(10)])
    assert await resolver.resolve("a.test", 80) == (LOOPBACK,)
    assert asked == 1
    forgetful = Counting(ttl=0)
    await forgetful.resolve("a.test", 80)
    await forgetful.resolve("a.test", 80)
    assert asked == 3


async def test_f31_the_next_address_is_tried_when_one_is_silent_or_refuses() -> None:
    with deaf_port() as (silent, port), socket.socket() as listener:
        listener.bind(("127.0.0.1", port))
        listener.listen()
        addresses = [ip_address(silent), ip_address("127.0.0.3"), LOOPBACK]
        async with asyncio.timeout(5):
            connected = await connect_first(addresses, port)
        with connected:
            assert connected.getpeername() == ("127.0.0.1", port)


async def test_f31_a_connection_that_comes_too_late_is_closed() -> None:
    async def connect() -> socket.socket:
        await asyncio.sleep(0)
        return socket.socket()

    attempt = asyncio.create_task(connect())
    attempt.add_done_callback(_close_late_winner)
    late = await attempt
    await asyncio.sleep(0)
    assert late.fileno() == -1


async def test_f31_a_caller_that_gives_up_does_not_take_the_answer_from_another() -> None:
    asked = asyncio.Event()
    go_on = asyncio.Event()

    class Slow(SystemResolver):
        async def _ask(self, host: str, port: int) -> Sequence[Address]:
            asked.set()
            await go_on.wait()
            return (LOOPBACK,)

    resolver = Slow()
    first, second = (asyncio.create_task(resolver.resolve("a.test", 80)) for _ in range(2))
    await asked.wait()
    first.cancel()
    await asyncio.wait([first])
    go_on.set()
    assert await second == (LOOPBACK,)


async def test_f31_the_reason_is_told_when_no_address_answers() -> None:
    async with ScriptedUpstream() as upstream:
        port = upstream.port
    with pytest.raises(ConnectionRefusedError):
        await connect_first([LOOPBACK, ip_address("127.0.0.3")], port)


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "0x7f.1", "2130706433", "[::ffff:127.0.0.1]", "[::1]", "0"]
)
async def test_t03_a_denied_address_is_not_dialled_however_it_is_spelled(host: str) -> None:
    deny = [ip_network("127.0.0.0/8"), ip_network("::1/128")]
    client = HttpClient(egress_deny=deny)
    async with ScriptedUpstream() as upstream:
        with pytest.raises(UpstreamConnectError, match="resolves to"):
            await client.send(Target.from_url(f"http://{host}:{upstream.port}"), REQUEST)
        assert upstream.connections == []
    await client.aclose()


@pytest.mark.parametrize(
    "answers",
    [[[OTHER_LOOPBACK], [LOOPBACK]], [[OTHER_LOOPBACK, LOOPBACK]]],
    ids=["one after the other", "both at once"],
)
async def test_t04_a_name_that_changes_its_mind_never_reaches_a_denied_address(
    answers: list[list[Address]],
) -> None:
    client = HttpClient(resolver=FakeResolver(*answers), egress_deny=[ip_network("127.0.0.1/32")])
    async with ScriptedUpstream() as upstream:
        target = Target.from_url(f"http://x.test:{upstream.port}")
        for _ in range(100):
            with pytest.raises(UpstreamConnectError):
                await client.send(target, REQUEST)
        assert upstream.connections == []
    await client.aclose()


async def test_t04_the_connection_goes_to_the_checked_address_under_the_name_of_the_host() -> None:
    resolver = FakeResolver([LOOPBACK])
    client = HttpClient(resolver=resolver)
    async with ScriptedUpstream() as upstream:
        upstream.enqueue(OK)
        await client.send(Target.from_url(f"http://x.test:{upstream.port}"), REQUEST)
        assert upstream.ledger[0].header("host") == f"x.test:{upstream.port}"
    assert resolver.questions == ["x.test"]
    await client.aclose()


async def test_proxies_named_by_the_environment_are_ignored(
    client: HttpClient, upstream: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    upstream.enqueue(OK)
    assert (await client.send(Target.from_url(upstream.url), REQUEST)).status == 200
