"""Gateways on databases that can be hurt, with the event loop of production."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path

import pytest
import uvloop

from relay_gateway.registry import Registry
from relay_gateway.server.gateway import Gateway
from relay_gateway.testing.instances import Instances
from relay_gateway.testing.postgres import PostgresServer


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(scope="session")
def registry() -> Registry:
    return Registry.discover()


@pytest.fixture
async def instances(tmp_path: Path, registry: Registry) -> AsyncIterator[Instances]:
    opened = Instances(tmp_path, registry)
    yield opened
    await opened.close()


@pytest.fixture
async def four(instances: Instances, postgres_url: str) -> list[Gateway]:
    return [await instances.open(postgres_url, name) for name in ("a", "b", "c", "d")]


@pytest.fixture
def mortal_server() -> Iterator[PostgresServer]:
    """A server that a test may kill."""
    with PostgresServer() as server:
        yield server
