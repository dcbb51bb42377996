"""Opening and closing: every plugin under its own deadline, none at the expense of another."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from relay_gateway.errors import PluginLoadError
from relay_gateway.plugin import Plugin
from relay_gateway.registry.calls import Calls
from relay_gateway.registry.inventory import PluginState, Record

logger = logging.getLogger("relay_gateway.registry")


class Timing(msgspec.Struct, frozen=True):
    """Deadlines and pauses of the life cycle, in seconds.

    ``grace`` is how long a plugin may take to notice that it was cancelled before the gateway goes
    on without it. Retries begin after ``first_retry`` and each pause is twice the one before, up
    to ``longest_retry``.
    """

    opening: float = 5.0
    closing: float = 5.0
    grace: float = 0.5
    first_retry: float = 1.0
    longest_retry: float = 60.0
    finishing: float = 30.0
    """How long requests that began with an instance may go on with it after it was replaced."""

    def pause_after(self, pause: float) -> float:
        """The pause that follows ``pause``; 0 precedes the first."""
        return min(max(2 * pause, self.first_retry), self.longest_retry)


class Instance:
    """One plugin instance and its life: opened, if need be again and again, and closed once."""

    def __init__(
        self,
        plugin: Plugin[Any],
        record: Record,
        *,
        required: bool,
        timing: Timing,
        calls: Calls | None = None,
    ) -> None:
        self.plugin = plugin
        self.calls = calls
        self.record = record
        self.required = required
        self._timing = timing
        self._attempt: asyncio.Task[None] | None = None
        self._background: asyncio.Task[None] | None = None
        self._tried = asyncio.Event()
        """Set when it is known how the first attempt to open went."""

    async def open(self) -> None:
        """Opens the plugin, within the deadline.

        A failure is in the record afterwards and is repeated in the background; of a ``required``
        plugin it is raised, as :class:`PluginLoadError`.
        """
        error = await self._try_to_open()
        if error is None:
            return
        if self.required:
            raise PluginLoadError(
                f"{self.record} is required and could not be opened: {self.record.error}"
            ) from error
        self._background = asyncio.create_task(self._keep_trying(self._timing.pause_after(0.0)))

    def open_soon(self) -> None:
        """Opens the plugin in the background, for one that is first needed while requests run."""
        self._background = asyncio.create_task(self._keep_trying(0.0))

    async def ready(self) -> str | None:
        """Waits for the attempt to open that is under way; what it failed with."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timing.opening + self._timing.grace):
                await self._tried.wait()
        if self.record.state is PluginState.OPEN:
            return None
        return self.record.error or "it is not open yet"

    async def try_once(self) -> str | None:
        """Opens the plugin, within the deadline and without another try; what it failed with."""
        error = await self._try_to_open()
        return None if error is None else self.record.error

    async def finish(self, *, at_least: float = 0.0) -> None:
        """Closes the plugin when nothing uses it any more: after ``at_least`` so many seconds, and
        when no call is under way, or when the time for that is over."""
        await asyncio.sleep(at_least)
        if self.calls is not None and not await self.calls.drained(self._timing.finishing):
            logger.warning(
                "%s is closed while %d calls are under way", self.record, self.calls.in_flight
            )
        await self.close()

    async def close(self) -> None:
        """Closes the plugin and what its context holds, each within the deadline; never raises."""
        if self.record.state is PluginState.CLOSED:
            return
        for task in (self._background, self._attempt):
            if task is not None:
                await _end(task, self._timing.grace)
        if self._attempt is not None:
            await self._run_down("closing", self.plugin.aclose)
        await self._run_down("releasing what it used", self.plugin.context.aclose)
        self.record.enter(PluginState.CLOSED, self.record.error)

    async def _try_to_open(self) -> BaseException | None:
        self.record.enter(PluginState.OPENING, self.record.error)
        self._attempt = asyncio.create_task(_call(self.plugin.aopen))
        error = await _outcome(self._attempt, self._timing.opening, self._timing.grace)
        if error is None:
            self.record.enter(PluginState.OPEN)
            logger.info("opened %s", self.record)
        else:
            self.record.enter(PluginState.FAILED, error)
            logger.warning("%s could not be opened: %s", self.record, self.record.error)
        self._tried.set()
        return error

    async def _keep_trying(self, pause: float) -> None:
        while True:
            await asyncio.sleep(pause)
            if await self._overtime_succeeded() or await self._try_to_open() is None:
                return
            pause = self._timing.pause_after(pause)

    async def _overtime_succeeded(self) -> bool:
        """Waits for an attempt that went on after it was cancelled: never two at the same time."""
        if self._attempt is None:
            return False
        await asyncio.wait({self._attempt})
        if _failure(self._attempt) is not None:
            return False
        self.record.enter(PluginState.OPEN)
        logger.info("opened %s after its deadline", self.record)
        return True

    async def _run_down(self, doing: str, call: Callable[[], Awaitable[None]]) -> None:
        task = asyncio.create_task(_call(call))
        error = await _outcome(task, self._timing.closing, self._timing.grace)
        if error is not None:
            wording = self.record.wording(error)
            logger.error("%s failed while %s: %s", self.record, doing, wording)


async def _call(call: Callable[[], Awaitable[None]]) -> None:
    try:
        await call()
    except SystemExit as error:
        # Let through, it would stop the event loop and everything on it.
        raise PluginLoadError(f"called sys.exit({error.code!r})") from error


async def _outcome(task: asyncio.Task[None], seconds: float, grace: float) -> BaseException | None:
    """How ``task`` failed, ``None`` when it did not. After the deadline it is cancelled."""
    try:
        await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        task.cancel()
        raise
    if task.done():
        return _failure(task)
    await _end(task, grace)
    return TimeoutError(f"not done after {seconds:g} s")


async def _end(task: asyncio.Task[None], grace: float) -> None:
    task.add_done_callback(_failure)
    task.cancel()
    await asyncio.wait({task}, timeout=grace)


def _failure(task: asyncio.Task[None]) -> BaseException | None:
    """The exception of a finished task, which counts as retrieved by this."""
    if task.cancelled():
        return PluginLoadError("cancelled itself")
    return task.exception()
