"""Fixtures for pytest, loaded by its entry point group ``pytest11``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from relay_gateway.testing.canary import Canary
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.gateway_app import GatewayApp
from relay_gateway.testing.postgres import PostgresServer
from relay_gateway.testing.upstream import ScriptedUpstream

pytest.register_assert_rewrite("relay_gateway.testing.conformance")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server for the whole run; a test that stops it must start it again."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres_url(postgres_server: PostgresServer) -> Iterator[str]:
    """Address of a fresh, empty database that goes away with the test."""
    url = postgres_server.create_database()
    yield url
    postgres_server.drop_database(url)


@pytest.fixture
async def scripted_upstream() -> AsyncIterator[ScriptedUpstream]:
    """A running :class:`ScriptedUpstream` without scripts, in the event loop of the test."""
    async with ScriptedUpstream() as upstream:
        yield upstream


@pytest.fixture
def canary() -> Canary:
    """Fake secrets that are unique to the test, to be swept for at its end."""
    return Canary()


@pytest.fixture
def fake_clock() -> FakeClock:
    """A clock that moves when the test says so."""
    return FakeClock()


@pytest.fixture
def relay_toml() -> str:
    """The configuration file of ``relay_gateway_app``; override it to configure your plugin."""
    return ""


@pytest.fixture
async def relay_gateway_app(tmp_path: Path, relay_toml: str) -> AsyncIterator[GatewayApp]:
    """A running :class:`GatewayApp`: a whole gateway with every installed plugin, on loopback."""
    async with GatewayApp(tmp_path, relay_toml) as app:
        yield app
