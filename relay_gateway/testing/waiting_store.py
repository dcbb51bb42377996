"""A state store that has to be waited for, and that hangs or fails when a test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from relay_gateway.limits.choose import memory_store
from relay_gateway.plugin import Clock, Grant, Hold, PluginConfig, PluginContext, StateStore

Mood = Literal["answers", "hangs", "fails", "forgets"]


class WaitingStore(StateStore[PluginConfig]):
    """Counts in memory, behind a wait. In the mood to hang, it counts and answers when it is
    ``released``; in the mood to forget, it counts and raises."""

    name = "waiting"
    schemes = ("waiting",)
    shared = True

    def __init__(self, clock: Clock) -> None:
        context = PluginContext(plugin="waiting", data_dir=Path(), database_url="", clock=clock)
        super().__init__(PluginConfig(), context)
        self.memory = memory_store(clock)
        self.mood: Mood = "answers"
        self.released = asyncio.Event()
        self.asked = asyncio.Event()
        self.calls = 0

    async def reserve(self, request_id: str, holds: Sequence[Hold]) -> Grant:
        """As the mood is."""
        self.calls += 1
        self.asked.set()
        await asyncio.sleep(0)
        if self.mood == "fails":
            raise ConnectionError("the store is gone")
        grant = self.memory.reserve_now(request_id, holds)
        if self.mood == "hangs":
            await self.released.wait()
        if self.mood == "forgets":
            raise ConnectionError("the answer was lost")
        return grant

    async def settle(self, request_id: str, holds: Sequence[Hold], used: Sequence[int]) -> None:
        """Settles, unless it fails."""
        await asyncio.sleep(0)
        if self.mood == "fails":
            raise ConnectionError("the store is gone")
        self.memory.settle_now(request_id, holds, used)
