"""A gateway that keeps payloads, between a raw caller and a scripted upstream."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.catalog.sections import PayloadLogging, ProxyMode, RuntimeSettings
from relay_gateway.pipeline.capture import MEMORY_BYTES
from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.upstream import ScriptedUpstream

MakePath = Callable[..., AbstractAsyncContextManager[DataPath]]


@pytest.fixture
async def upstream() -> AsyncIterator[ScriptedUpstream]:
    async with ScriptedUpstream() as upstream:
        yield upstream
    assert upstream.errors == []


def keeping(**section: Any) -> RuntimeSettings:
    """Settings with proxy mode, and with payload logging that is otherwise as in ``section``."""
    payload_logging = PayloadLogging.model_validate(
        {"enabled": True, "loggers": ["memory"], **section}
    )
    return RuntimeSettings(proxy_mode=ProxyMode(enabled=True), payload_logging=payload_logging)


def _open(
    directory: Path,
    url: str,
    *,
    opted_in: bool = True,
    memory: int = MEMORY_BYTES,
    **section: Any,
) -> DataPath:
    return DataPath(
        directory,
        {"m": url},
        settings=keeping(**section),
        payload_logging=opted_in,
        payload_memory=memory,
        pathPrefix="acme",
    )


@pytest.fixture
def open_path(tmp_path: Path, upstream: ScriptedUpstream) -> MakePath:
    """Opens a gateway with the model ``m`` at a host with the path prefix ``acme``; fields of the
    section are given by name."""
    return partial(_open, tmp_path, upstream.url)


@pytest.fixture
async def path(open_path: MakePath) -> AsyncIterator[DataPath]:
    """One with the section as it is by default, but enabled."""
    async with open_path() as path:
        yield path
