"""Sinks over one directory, closed after each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.plugin import PluginContext
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.context import plugin_context
from relay_gateway_log_file import FileSink, FileSinkConfig

OpenSink = Callable[..., Awaitable[FileSink]]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def active(tmp_path: Path) -> Path:
    """The file that records are appended to."""
    return tmp_path / "usage" / "usage.jsonl"


@pytest.fixture
async def context(tmp_path: Path, clock: FakeClock) -> AsyncIterator[PluginContext]:
    context = plugin_context(tmp_path, plugin="file", clock=clock)
    yield context
    await context.aclose()


@pytest.fixture
async def open_sink(context: PluginContext) -> AsyncIterator[OpenSink]:
    """Opens one more sink with these settings on the same files."""
    async with AsyncExitStack() as stack:

        async def opened(**settings: Any) -> FileSink:
            sink = FileSink(FileSinkConfig(**settings), context)
            stack.push_async_callback(sink.aclose)
            await sink.aopen()
            return sink

        yield opened
