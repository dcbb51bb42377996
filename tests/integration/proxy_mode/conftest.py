"""One gateway in proxy mode between a raw caller and a scripted upstream."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.proxied import PROXY_MODE_ON
from relay_gateway.testing.upstream import ScriptedUpstream


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as upstream:
        yield upstream
    assert upstream.errors == []


@pytest.fixture
async def path(tmp_path: Path, upstream: ScriptedUpstream) -> AsyncIterator[DataPath]:
    """The model ``m`` at a host with the path prefix ``acme``."""
    hosts = {"m": upstream.url}
    async with DataPath(tmp_path, hosts, settings=PROXY_MODE_ON, pathPrefix="acme") as path:
        yield path
