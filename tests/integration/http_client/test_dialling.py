from __future__ import annotations

import asyncio
import datetime as dt
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from ipaddress import ip_address, ip_network
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from relay_gateway.errors import UpstreamConnectError, UpstreamTimeoutError, UpstreamTlsError
from relay_gateway.http.client import HttpClient
from relay_gateway.http.egress import Address
from relay_gateway.http.race import _close_late_winner, connect_first
from relay_gateway.http.resolve import SystemResolver
from relay_gateway.http.target import Target
from relay_gateway.plugin import UpstreamRequest
from relay_gateway.testing.script import Close, response
from relay_gateway.testing.upstream import ScriptedUpstream

REQUEST = UpstreamRequest(b"/", b"authorization: Bearer canary\r\n", b"{}")
OK = response(200, b"hello")
LOOPBACK = ip_address("127.0.0.1")
OTHER_LOOPBACK = ip_address("127.0.0.2")


class FakeResolver:
    """Answers with the given addresses, one answer after the other, round and round."""

    def __init__(self, *answers: Sequence[Address]) -> None:
        self._answers = answers
        self.questions: list[str] = []

    async def resolve(self, host: str, port: int) -> Sequence[Address]:
        self.questions.append(host)
        return self._answers[(len(self.questions) - 1) % len(self._answers)]


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


class Certificate:
    """A self-signed certificate in a file, and a server context that shows it."""

    def __init__(self, folder: Path, *names: str, days: int = 1) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
        now = dt.datetime.now(dt.UTC)
        alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in names]
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=9))
            .not_valid_after(now + dt.timedelta(days=days))
            .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        self.file = str(folder / "certificate.pem")
        private = folder / "key.pem"
        private.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        Path(self.file).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.file, private)


@asynccontextmanager
async def loopback_client() -> AsyncIterator[HttpClient]:
    client = HttpClient(resolver=FakeResolver([LOOPBACK]))
    yield client
    await client.aclose()


async def test_tls_is_spoken_to_a_host_that_its_own_trust_store_knows(tmp_path: Path) -> None:
    certificate = Certificate(tmp_path, "x.test")
    async with ScriptedUpstream(tls=certificate.context) as upstream, loopback_client() as client:
        body = bytes(range(256)) * 20_000
        upstream.enqueue(response(200, body), OK)
        target = Target.from_url(f"https://x.test:{upstream.port}", ca_file=certificate.file)
        exchange = await client.send(target, UpstreamRequest(b"/", b"", body))
        assert await exchange.read(1 << 24) == body
        assert upstream.ledger[0].body == body
        assert (await client.send(target, REQUEST)).reused


@pytest.mark.parametrize(
    ("name", "days", "trusted"),
    [("x.test", 1, False), ("other.test", 1, True), ("x.test", -1, True)],
    ids=["self-signed", "wrong name", "expired"],
)
async def test_f32_a_certificate_that_does_not_verify_is_never_accepted(
    tmp_path: Path, name: str, days: int, *, trusted: bool
) -> None:
    certificate = Certificate(tmp_path, name, days=days)
    async with ScriptedUpstream(tls=certificate.context) as upstream, loopback_client() as client:
        ca_file = certificate.file if trusted else None
        target = Target.from_url(f"https://x.test:{upstream.port}", ca_file=ca_file)
        with pytest.raises(UpstreamTlsError, match="certificate is not acceptable") as caught:
            await client.send(target, REQUEST)
        assert not caught.value.sent
        assert upstream.ledger == []


async def test_f32_a_server_without_tls_is_not_spoken_to_in_clear(
    upstream: ScriptedUpstream,
) -> None:
    upstream.greeting = lambda _: [*OK, Close()]
    async with loopback_client() as client:
        with pytest.raises(UpstreamTlsError):
            await client.send(Target.from_url(f"https://x.test:{upstream.port}"), REQUEST)
    assert b"canary" not in upstream.received
    upstream.malformed.clear()


async def test_a_trust_store_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    async with loopback_client() as client:
        for file in (tmp_path / "missing.pem", empty):
            target = Target.from_url("https://x.test", ca_file=str(file))
            with pytest.raises(UpstreamTlsError, match=file.name):
                await client.send(target, REQUEST)


async def test_tls_sessions_are_resumed(tmp_path: Path) -> None:
    certificate = Certificate(tmp_path, "x.test")
    resumed: list[bool] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        resumed.append(writer.get_extra_info("ssl_object").session_reused)
        await reader.readuntil(b"\r\n\r\n{}")
        writer.write(b"HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n")
        await reader.read()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0, ssl=certificate.context)
    port = server.sockets[0].getsockname()[1]
    async with server, loopback_client() as client:
        target = Target.from_url(f"https://x.test:{port}", ca_file=certificate.file)
        for _ in range(2):
            assert (await client.send(target, REQUEST)).status == 200
            client.retain([])
    assert resumed == [False, True]


class ConnectProxy:
    """An egress proxy on a loopback port that remembers what it was asked."""

    def __init__(self, answer: bytes = b"HTTP/1.1 200 Established\r\n\r\n") -> None:
        self._answer = answer
        self.asked: list[bytes] = []
        self.port = 0
        self.upstream_port = 0

    @asynccontextmanager
    async def running(self, upstream_port: int) -> AsyncIterator[None]:
        self.upstream_port = upstream_port
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        async with server:
            yield

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(self._answer)
        if self._answer.startswith(b"HTTP/1.1 200"):
            to = await asyncio.open_connection("127.0.0.1", self.upstream_port)
            await asyncio.gather(copy(reader, to[1]), copy(to[0], writer))
        writer.close()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    writer.close()


async def test_a_tunnel_is_asked_for_with_credentials_and_tls_goes_through_it(
    tmp_path: Path,
) -> None:
    certificate = Certificate(tmp_path, "x.test")
    proxy = ConnectProxy()
    async with (
        ScriptedUpstream(tls=certificate.context) as upstream,
        proxy.running(upstream.port),
        loopback_client() as client,
    ):
        upstream.enqueue(OK, OK)
        target = Target.from_url(
            "https://x.test",
            ca_file=certificate.file,
            proxy_url=f"http://relay:p%40ss@127.0.0.1:{proxy.port}",
        )
        assert "p%40ss" not in repr(target)
        exchange = await client.send(target, REQUEST)
        assert await exchange.read(10) == b"hello"
        assert (await client.send(target, REQUEST)).reused
        assert upstream.ledger[0].header("host") == "x.test"
    assert proxy.asked == [
        (
            b"CONNECT x.test:443 HTTP/1.1\r\nHost: x.test:443\r\n"
            b"Proxy-Authorization: Basic cmVsYXk6cEBzcw==\r\n\r\n"
        )
    ]


async def test_a_tunnel_to_a_private_address_carries_plain_http(
    client: HttpClient, upstream: ScriptedUpstream
) -> None:
    proxy = ConnectProxy()
    async with proxy.running(upstream.port):
        upstream.enqueue(OK)
        target = Target.from_url("http://10.1.2.3", proxy_url=f"http://127.0.0.1:{proxy.port}")
        exchange = await client.send(target, REQUEST)
        assert await exchange.read(10) == b"hello"
        exchange.cancel()
        await client.aclose()
        await upstream.until(lambda: upstream.open_connections == 0)
    assert proxy.asked == [b"CONNECT 10.1.2.3:80 HTTP/1.1\r\nHost: 10.1.2.3:80\r\n\r\n"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 407 Who are you\r\n\r\n", "refused the tunnel with status 407"),
        (b"SSH-2.0-x\r\n\r\n", "something other than HTTP/1.1"),
        (b"HTTP/1.1 204 Fine\r\n\r\nHTTP/1.1 200 OK\r\n", "before the tunnel was used"),
        (b"HTTP/1.1 502 " + b"x" * 20_000, "something other than HTTP/1.1"),
        (b"", "instead of opening a tunnel"),
    ],
)
async def test_a_tunnel_that_does_not_open_is_an_error_without_credentials(
    client: HttpClient, answer: bytes, message: str
) -> None:
    proxy = ConnectProxy(answer)
    async with proxy.running(1):
        url = f"http://relay:password@127.0.0.1:{proxy.port}"
        target = Target.from_url("https://10.1.2.3", proxy_url=url)
        with pytest.raises(UpstreamConnectError, match=message) as caught:
            await client.send(target, REQUEST)
    assert not caught.value.sent
    assert "password" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://x.test", "http://93.184.216.34", "https://169.254.169.254", "https://[fe80::1]"]
)
async def test_t03_a_proxy_is_not_asked_for_what_may_not_be_dialled(
    client: HttpClient, url: str
) -> None:
    proxy = ConnectProxy()
    async with proxy.running(1):
        target = Target.from_url(url, proxy_url=f"http://127.0.0.1:{proxy.port}")
        with pytest.raises(UpstreamConnectError):
            await client.send(target, REQUEST)
    assert proxy.asked == []
