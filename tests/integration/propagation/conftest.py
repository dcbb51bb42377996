"""Gateways on a database that can be hurt."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from relay_gateway.registry import Registry
from relay_gateway.testing.instances import Instances
from relay_gateway.testing.postgres import PostgresServer


@pytest.fixture(scope="session")
def registry() -> Registry:
    return Registry.discover()


@pytest.fixture
async def instances(tmp_path: Path, registry: Registry) -> AsyncIterator[Instances]:
    opened = Instances(tmp_path, registry)
    yield opened
    await opened.close()


@pytest.fixture(scope="module")
def mortal_server() -> Iterator[PostgresServer]:
    """A server that tests of this module may kill."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def mortal_url(mortal_server: PostgresServer) -> Iterator[str]:
    if not mortal_server.running:
        mortal_server.restart()
    yield mortal_server.create_database()
    if not mortal_server.running:
        mortal_server.restart()
