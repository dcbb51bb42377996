"""Stores with a clock that only moves when a test says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from relay_gateway.limits.choose import memory_store
from relay_gateway.limits.memory_store import MemoryStore
from relay_gateway.limits.shared_store import SharedStore
from relay_gateway.plugin import PluginConfig, PluginContext
from relay_gateway.testing.clock import FakeClock

MakeShared = Callable[[], SharedStore]


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def store(clock: FakeClock) -> MemoryStore:
    return memory_store(clock)


@pytest.fixture
def make_shared(tmp_path: Path, clock: FakeClock) -> MakeShared:
    """Makes one more store over the same table."""

    def make() -> SharedStore:
        context = PluginContext(plugin="memory", data_dir=tmp_path, database_url="", clock=clock)
        return SharedStore(
            PluginConfig(), context, directory=tmp_path / "limits", rows=8, slots=4096
        )

    return make
