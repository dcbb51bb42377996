"""A plugin that never gets done with opening, nor with closing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from relay_gateway.plugin import PluginConfig, UsageRecord, UsageSink, hookimpl


class Config(PluginConfig):
    deaf: bool = False
    """Does not even end when it is cancelled."""


class Sink(UsageSink[Config]):
    name = "slow_open"
    Config = Config

    async def aopen(self) -> None:
        await self._wait()

    async def aclose(self) -> None:
        await self._wait()

    async def write(self, records: Sequence[UsageRecord]) -> None:
        raise NotImplementedError

    async def _wait(self) -> None:
        never = asyncio.Event()
        try:
            await never.wait()
        except asyncio.CancelledError:
            if not self.config.deaf:
                raise
            await never.wait()


@hookimpl
def relay_register_usage_sinks() -> Sequence[type[UsageSink[Config]]]:
    return (Sink,)
