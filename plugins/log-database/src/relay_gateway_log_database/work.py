"""Work on a database that ends by itself, even when nobody waits for it any more."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Work:
    """All that runs at the moment."""

    def __init__(self) -> None:
        self._running: set[asyncio.Task[Any]] = set()

    async def complete(self, work: Coroutine[Any, Any, T]) -> T:
        """Lets ``work`` end by itself when the wait for it is cancelled.

        A connection of SQLite that is left in the middle of a statement keeps its lock, and every
        later write waits for it.
        """
        task = asyncio.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return await asyncio.shield(task)

    async def ended(self) -> None:
        """Waits until nothing runs."""
        await asyncio.gather(*self._running, return_exceptions=True)
