"""Servers to test against, and stores over them that are closed after each test."""

from __future__ import annotations

import datetime as dt
import ipaddress
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pydantic import SecretStr

from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.context import plugin_context
from relay_gateway_state_redis import RedisConfig, RedisStore
from relay_gateway_state_redis import store as store_module
from relay_gateway_state_redis.scripts import RESERVE, SETTLE, Script
from relay_gateway_state_redis.testing.groups import RedisCluster, RedisSentinel
from relay_gateway_state_redis.testing.server import RedisServer

MakeStore = Callable[..., RedisStore]
OpenStore = Callable[..., Awaitable[RedisStore]]
TIME = "redis.call('TIME')"


class ServerClock(FakeClock):
    """A clock that the scripts ask in place of the server's."""

    def __init__(self, server: RedisServer) -> None:
        super().__init__()
        self._server = server
        self.advance(0)

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        self._tell()

    def set_time(self, now: float) -> None:
        super().set_time(now)
        self._tell()

    def _tell(self) -> None:
        whole, part = divmod(round(self.time() * 1_000_000), 1_000_000)
        self._server.command("MSET", "seconds", whole, "microseconds", part)


def with_clock(script: Script) -> Script:
    """The script as it is, but for where the time comes from."""
    assert script.text.count(TIME) == 1
    text = script.text.replace(TIME, "redis.call('MGET', 'seconds', 'microseconds')")
    return Script.of(text)


@pytest.fixture(scope="session")
def _server() -> Iterator[RedisServer]:
    with RedisServer() as server:
        yield server


@pytest.fixture
def server(_server: RedisServer) -> RedisServer:
    """A server that every test finds empty and running."""
    _server.command("FLUSHALL")
    return _server


@pytest.fixture
def turned_clock(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    """What the scripts take the time from, on ``server``."""
    monkeypatch.setattr(store_module, "RESERVE", with_clock(RESERVE))
    monkeypatch.setattr(store_module, "SETTLE", with_clock(SETTLE))
    return ServerClock(server)


@pytest.fixture
def own_server() -> Iterator[RedisServer]:
    """A server that the test may treat as it likes."""
    with RedisServer() as server:
        yield server


@pytest.fixture(scope="session")
def cluster() -> Iterator[RedisCluster]:
    with RedisCluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def sentinel() -> Iterator[RedisSentinel]:
    with RedisSentinel() as sentinel:
        yield sentinel


@pytest.fixture
def make(tmp_path: Path) -> MakeStore:
    """A store for an address, not opened yet."""

    def made(url: str, **settings: Any) -> RedisStore:
        return RedisStore(RedisConfig(url=SecretStr(url), **settings), plugin_context(tmp_path))

    return made


@pytest.fixture
async def opened(make: MakeStore) -> AsyncIterator[OpenStore]:
    """Opens one more store for an address."""
    async with AsyncExitStack() as stack:

        async def open_one(url: str, **settings: Any) -> RedisStore:
            store = make(url, **settings)
            stack.push_async_callback(store.aclose)
            await store.aopen()
            return store

        yield open_one


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One file with a key and its self-signed certificate for 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "redis")])
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    form, locked = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, form, locked)
    file = tmp_path_factory.mktemp("tls") / "redis.pem"
    file.write_bytes(pem + made.public_bytes(serialization.Encoding.PEM))
    return file
