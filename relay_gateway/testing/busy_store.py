"""A state store that answers at once, unless a test says that somebody else has it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from relay_gateway.errors import StateBusyError
from relay_gateway.limits.choose import memory_store
from relay_gateway.plugin import Clock, Grant, Hold, PluginConfig, PluginContext, StateStore


class BusyStore(StateStore[PluginConfig]):
    """Counts in memory; the next ``busy`` calls find it busy."""

    name = "busy"
    schemes = ("busy",)
    shared = True
    immediate = True

    def __init__(self, clock: Clock) -> None:
        context = PluginContext(plugin="busy", data_dir=Path(), database_url="", clock=clock)
        super().__init__(PluginConfig(), context)
        self.memory = memory_store(clock)
        self.busy = 0

    def reserve_now(self, request_id: str, holds: Sequence[Hold]) -> Grant:
        """Reserves in memory. Raises :class:`StateBusyError`."""
        self._enter()
        return self.memory.reserve_now(request_id, holds)

    def settle_now(self, request_id: str, holds: Sequence[Hold], used: Sequence[int]) -> None:
        """Settles in memory. Raises :class:`StateBusyError`."""
        self._enter()
        self.memory.settle_now(request_id, holds, used)

    def _enter(self) -> None:
        if self.busy:
            self.busy -= 1
            raise StateBusyError("somebody else has it")
