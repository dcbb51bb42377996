from __future__ import annotations

import asyncio
import datetime as dt
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from relay_gateway.catalog.snapshot import ProxyCredential
from relay_gateway.errors import (
    EgressProxyError,
    SecretUnavailableError,
    UpstreamConnectError,
    UpstreamTlsError,
)
from relay_gateway.http.client import HttpClient
from relay_gateway.http.target import Target
from relay_gateway.http.tunnel import ProxyLogins
from relay_gateway.plugin import RowBinding, UpstreamRequest
from relay_gateway.secret import Secret
from relay_gateway.testing.catalog import TableRef
from relay_gateway.testing.connect_proxy import ConnectProxy
from relay_gateway.testing.resolver import FakeResolver
from relay_gateway.testing.script import Close, response
from relay_gateway.testing.upstream import ScriptedUpstream

from .asking import OK

REQUEST = UpstreamRequest(b"/", b"authorization: Bearer canary\r\n", b"{}")
LOOPBACK = ip_address("127.0.0.1")


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
async def loopback_client(logins: ProxyLogins | None = None) -> AsyncIterator[HttpClient]:
    client = HttpClient(resolver=FakeResolver([LOOPBACK]), logins=logins)
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


class KnownLogins:
    """One login for every proxy, and what was refused."""

    def __init__(self, login: str) -> None:
        self.login = Secret(login)
        self.refusals: list[Secret] = []

    async def get(self, credential: ProxyCredential) -> Secret:
        if not self.login:
            raise SecretUnavailableError("the vault is down")
        return self.login

    def refused(self, credential: ProxyCredential, login: Secret) -> None:
        self.refusals.append(login)


CREDENTIAL = ProxyCredential(
    "h1", "table", TableRef(entry="proxy"), RowBinding("host", "h1", "spec.proxyCredential", 1)
)


async def test_a_tunnel_is_asked_for_with_credentials_and_tls_goes_through_it(
    tmp_path: Path,
) -> None:
    certificate = Certificate(tmp_path, "x.test")
    proxy, logins = ConnectProxy(), KnownLogins("relay:p@ss")
    async with (
        ScriptedUpstream(tls=certificate.context) as upstream,
        proxy.running(upstream.port),
        loopback_client(logins) as client,
    ):
        upstream.enqueue(OK, OK)
        target = Target.from_url(
            "https://x.test",
            ca_file=certificate.file,
            proxy_url=proxy.url,
            proxy_credential=CREDENTIAL,
        )
        assert "table" not in repr(target)
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
        target = Target.from_url("http://10.1.2.3", proxy_url=proxy.url)
        exchange = await client.send(target, REQUEST)
        assert await exchange.read(10) == b"hello"
        exchange.cancel()
        await client.aclose()
        await upstream.until(lambda: upstream.open_connections == 0)
    assert proxy.asked == [b"CONNECT 10.1.2.3:80 HTTP/1.1\r\nHost: 10.1.2.3:80\r\n\r\n"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"HTTP/1.1 407 Who are you\r\n\r\n", r"wants a user name and password \(407\)"),
        (b"HTTP/1.1 403 No\r\n\r\n", "refused the tunnel with status 403"),
        (b"SSH-2.0-x\r\n\r\n", "something other than HTTP/1.1"),
        (b"HTTP/1.1 204 Fine\r\n\r\nHTTP/1.1 200 OK\r\n", "before the tunnel was used"),
        (b"HTTP/1.1 502 " + b"x" * 20_000, "something other than HTTP/1.1"),
        (b"", "instead of opening a tunnel"),
    ],
)
async def test_a_tunnel_that_does_not_open_is_an_error_that_says_why(
    client: HttpClient, answer: bytes, message: str
) -> None:
    proxy = ConnectProxy(answer)
    async with proxy.running(1):
        target = Target.from_url("https://10.1.2.3", proxy_url=proxy.url)
        with pytest.raises(EgressProxyError, match=message) as caught:
            await client.send(target, REQUEST)
    assert not caught.value.sent


async def test_a_login_that_the_proxy_refuses_is_looked_up_again_and_not_told() -> None:
    proxy, logins = ConnectProxy(login="relay:other"), KnownLogins("relay:hunter2")
    async with proxy.running(1), loopback_client(logins) as client:
        target = Target.from_url("https://x.test", proxy_url=proxy.url, proxy_credential=CREDENTIAL)
        with pytest.raises(EgressProxyError, match="did not accept the host's") as caught:
            await client.send(target, REQUEST)
    assert caught.value.status == 407
    assert "hunter2" not in str(caught.value)
    assert logins.refusals == [logins.login]
    assert len(proxy.asked) == 1


@pytest.mark.parametrize(
    ("logins", "message"),
    [
        (KnownLogins(""), "cannot be had: the vault is down"),
        (None, "nothing here knows the login of the egress proxy"),
    ],
)
async def test_a_proxy_is_not_asked_without_the_login_it_should_get(
    logins: ProxyLogins | None, message: str
) -> None:
    proxy = ConnectProxy()
    async with proxy.running(1), loopback_client(logins) as client:
        target = Target.from_url("https://x.test", proxy_url=proxy.url, proxy_credential=CREDENTIAL)
        with pytest.raises(EgressProxyError, match=message):
            await client.send(target, REQUEST)
    assert proxy.asked == []


async def test_a_proxy_address_with_a_login_in_it_is_not_dialled(client: HttpClient) -> None:
    target = Target.from_url("https://10.1.2.3", proxy_url="http://relay:hunter2@127.0.0.1:1")
    with pytest.raises(EgressProxyError, match="and no login") as caught:
        await client.send(target, REQUEST)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://x.test", "http://93.184.216.34", "https://169.254.169.254", "https://[fe80::1]"]
)
async def test_t03_a_proxy_is_not_asked_for_what_may_not_be_dialled(
    client: HttpClient, url: str
) -> None:
    proxy = ConnectProxy()
    async with proxy.running(1):
        target = Target.from_url(url, proxy_url=proxy.url)
        with pytest.raises(UpstreamConnectError):
            await client.send(target, REQUEST)
    assert proxy.asked == []
