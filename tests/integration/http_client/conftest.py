"""Every test of the upstream client runs on asyncio's own loop and on uvloop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest
import uvloop

from relay_gateway.http.client import HttpClient
from relay_gateway.http.pool import PoolLimits
from relay_gateway.testing.upstream import ScriptedUpstream

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def pytest_asyncio_loop_factories() -> Mapping[str, LoopFactory]:
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as upstream:
        yield upstream
    assert upstream.malformed == []
    assert upstream.errors == []


@pytest.fixture
async def client() -> AsyncIterator[HttpClient]:
    client = HttpClient(limits=PoolLimits(idle=4.0, wait=0.2))
    yield client
    await client.aclose()
