"""Instances on the edges of their life."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from relay_gateway.errors import PluginLoadError
from relay_gateway.plugin import Plugin, PluginConfig, PluginContext
from relay_gateway.registry.inventory import Origin, PluginState, Record
from relay_gateway.registry.lifecycle import Instance, Timing

QUICK = Timing(opening=0.01, closing=0.01, grace=0.01, first_retry=0.0, longest_retry=0.0)


class Late(Plugin[PluginConfig]):
    """Does not hear that it is cancelled, and is done when it is let go."""

    name = "late"

    def __init__(self) -> None:
        super().__init__(PluginConfig(), PluginContext("late", Path(), "sqlite:///x"))
        self.let_go = asyncio.Event()
        self.attempts = 0
        self.error: Exception | None = None

    async def aopen(self) -> None:
        self.attempts += 1
        if self.attempts > 1:
            return
        try:
            await self.let_go.wait()
        except asyncio.CancelledError:
            await self.let_go.wait()
        if self.error is not None:
            raise self.error


def instance_of(plugin: Plugin[PluginConfig], *, required: bool = False) -> Instance:
    record = Record("late", None, Origin("late", "-", "-"))
    return Instance(plugin, record, required=required, timing=QUICK)


async def until(condition: Callable[[], bool]) -> None:
    """Gives the event loop to others until ``condition`` holds; an error after two seconds."""
    async with asyncio.timeout(2):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0)


async def opened(instance: Instance) -> None:
    await until(lambda: instance.record.state is PluginState.OPEN)


async def test_an_opening_that_ends_after_its_deadline_counts() -> None:
    plugin = Late()
    instance = instance_of(plugin)
    await instance.open()
    assert instance.record.state is PluginState.FAILED
    plugin.let_go.set()
    await opened(instance)
    assert plugin.attempts == 1
    await instance.close()


async def test_no_second_opening_begins_before_the_first_has_ended() -> None:
    plugin = Late()
    plugin.error = OSError("at last")
    instance = instance_of(plugin)
    await instance.open()
    for _ in range(20):
        await asyncio.sleep(0)
    assert plugin.attempts == 1
    plugin.let_go.set()
    await opened(instance)
    assert plugin.attempts == 2
    await instance.close()


class Cancelling(Late):
    async def aopen(self) -> None:
        raise asyncio.CancelledError


async def test_an_opening_that_cancels_itself_has_failed() -> None:
    instance = instance_of(Cancelling(), required=True)
    with pytest.raises(PluginLoadError, match="could not be opened: cancelled itself"):
        await instance.open()
    await instance.close()


async def test_a_start_that_is_cancelled_leaves_no_opening_behind() -> None:
    plugin = Late()
    instance = Instance(
        plugin, Record("late", None, Origin("late", "-", "-")), required=False, timing=Timing()
    )
    start = asyncio.create_task(instance.open())
    await until(lambda: plugin.attempts == 1)
    start.cancel()
    plugin.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await start
    await instance.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_closing_what_was_never_opened_only_releases_its_context() -> None:
    plugin = Late()
    assert await plugin.context.run_blocking(int, "7") == 7
    instance = instance_of(plugin)
    await instance.close()
    assert plugin.context._executor is None
    assert instance.record.state is PluginState.CLOSED


def test_pauses_between_retries_double_up_to_their_limit() -> None:
    pauses = [Timing().pause_after(0.0)]
    for _ in range(7):
        pauses.append(Timing().pause_after(pauses[-1]))
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]
