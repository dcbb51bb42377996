"""What is done beside the writing: files tidied up, and the disk waited for at intervals."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from relay_gateway.plugin import PluginContext
from relay_gateway_log_file.output import Output

TIDY_SECONDS = 3600.0
"""How long after the last time an idle sink's files are looked at again, once it writes."""


class Tidier(Protocol):
    """What looks after files, in a thread."""

    def run(self) -> None:
        """Does all there is to do; never raises :class:`OSError`."""

    def stop(self) -> None:
        """Lets :meth:`run` end soon."""


class Tidying:
    """Runs a tidier in the background, once at a time."""

    def __init__(self, tidier: Tidier, context: PluginContext) -> None:
        self._tidier = tidier
        self._context = context
        self._untidy = False
        self._tidied = 0.0
        self._tidying: asyncio.Task[None] | None = None

    def tidy(self) -> None:
        """Looks at the files soon."""
        self._untidy = True
        self._tidied = self._context.clock.monotonic()
        if self._tidying is None or self._tidying.done():
            self._tidying = asyncio.create_task(self._tidy())

    def wrote(self, due: bool) -> None:  # noqa: FBT001 - what a write told
        """A batch was written; ``due`` says that this alone is a reason to look."""
        if due or self._context.clock.monotonic() - self._tidied >= TIDY_SECONDS:
            self.tidy()

    async def aclose(self) -> None:
        """Ends the work, or waits for what is nearly done."""
        self._tidier.stop()
        if self._tidying is not None:
            await self._tidying

    async def _tidy(self) -> None:
        while self._untidy:
            self._untidy = False
            await self._context.run_blocking(self._tidier.run)


class Upkeep(Tidying):
    """Waits for the disk besides. ``sync_seconds`` is ``None`` where nothing is synced at
    intervals."""

    def __init__(
        self, output: Output, tidier: Tidier, context: PluginContext, sync_seconds: float | None
    ) -> None:
        super().__init__(tidier, context)
        self._output = output
        self._sync_seconds = sync_seconds
        self._syncing: asyncio.Task[None] | None = None

    def wrote(self, due: bool) -> None:  # noqa: FBT001 - what Output.write told
        """A batch was written; ``due`` says that a file was rotated."""
        super().wrote(due)
        if self._sync_seconds is not None and (self._syncing is None or self._syncing.done()):
            self._syncing = asyncio.create_task(self._sync(self._sync_seconds))

    async def aclose(self) -> None:
        """Ends both; the output's ``close`` syncs what is left."""
        if self._syncing is not None:
            self._syncing.cancel()
            await asyncio.gather(self._syncing, return_exceptions=True)
        await super().aclose()

    async def _sync(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await _logged(self._context, self._output.sync)


async def _logged(context: PluginContext, call: Callable[[], None]) -> None:
    try:
        await context.run_blocking(call)
    except OSError as error:
        context.logger.error(  # noqa: TRY400 - the kernel's reason says it all
            "usage records of the last seconds may not outlive a power cut: %s", error
        )
