"""Which state store limits use: the one whose scheme ``RELAY_STATE_URL`` has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from relay_gateway.limits.guarded_store import GuardedStore, Report
from relay_gateway.limits.limiter import Limiter
from relay_gateway.limits.memory_store import MemoryStore
from relay_gateway.plugin.base import PluginConfig
from relay_gateway.plugin.context import Clock, PluginContext, SystemClock
from relay_gateway.plugin.state import StateStore


def in_memory(clock: Clock | None = None) -> Limiter:
    """Limits that this process alone counts."""
    return limiter_over(memory_store(clock or SystemClock()), clock)


def limiter_over(
    store: StateStore[Any], clock: Clock | None = None, report: Report | None = None
) -> Limiter:
    """Limits that ``store`` counts, and this process while that cannot be asked. ``report`` is as
    in :class:`GuardedStore`."""
    clock = clock or SystemClock()
    guarded = GuardedStore(store, clock, report) if report else GuardedStore(store, clock)
    return Limiter(guarded, memory_store(clock))


def memory_store(clock: Clock) -> MemoryStore:
    """An empty store of this process."""
    context = PluginContext(plugin="memory", data_dir=Path(), database_url="", clock=clock)
    return MemoryStore(PluginConfig(), context)
