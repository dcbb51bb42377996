"""What is done for the tables in the background: at once after opening, then every ten minutes."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

INTERVAL_SECONDS = 600.0
PAUSE_SECONDS = 0.05
MOST_STEPS = 1_000_000

Step = Callable[[], Coroutine[Any, Any, bool]]
"""Does a little, and says whether there is more to do. Raises when it cannot be done now."""


class Upkeep:
    """Runs ``steps`` one after the other, each until it has nothing left to do.

    A step is never cancelled in its middle: ``complete`` lets it end by itself.
    """

    def __init__(
        self,
        steps: tuple[Step, ...],
        complete: Callable[[Coroutine[Any, Any, bool]], Awaitable[bool]],
        logger: logging.Logger,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._steps = steps
        self._complete = complete
        self._logger = logger
        self._pause = pause_seconds
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def run_once(self) -> None:
        """Everything that there is to do now. A failure is logged, and tried again next time."""
        for step in self._steps:
            try:
                await self._finish(step)
            except Exception as error:  # noqa: BLE001 - drivers raise what they like
                self._logger.warning("upkeep is continued later: %s", error)

    async def aclose(self) -> None:
        """Ends after the step under way."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _finish(self, step: Step) -> None:
        for _ in range(MOST_STEPS):
            if not await self._complete(step()):
                return
            await asyncio.sleep(self._pause)  # who writes records goes first

    async def _run(self) -> None:
        while True:
            await self.run_once()
            # Spread, so that the instances of a fleet do not all begin at the same moment.
            await asyncio.sleep(INTERVAL_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311
