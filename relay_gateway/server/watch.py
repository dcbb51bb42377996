"""Keeps the live snapshot at the revision of the database."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from relay_gateway.catalog.live import LiveCatalog
from relay_gateway.catalog.snapshot import Snapshot
from relay_gateway.control.services import ReloadReport
from relay_gateway.errors import StorageUnavailableError
from relay_gateway.storage import CatalogRows, CatalogStore

_log = logging.getLogger(__name__)


class CatalogWatcher:
    """Rebuilds the snapshot after a write of this process, and when the revision tells of
    another's."""

    def __init__(
        self,
        store: CatalogStore,
        live: LiveCatalog,
        build: Callable[[CatalogRows], Snapshot],
        swapped: Callable[[Snapshot], None],
        interval: float,
    ) -> None:
        self._store = store
        self._live = live
        self._build = build
        self._swapped = swapped
        self._interval = interval
        self._building = asyncio.Lock()
        self._next: asyncio.Task[ReloadReport] | None = None
        self._polling: asyncio.Task[None] | None = None

    async def refresh(self) -> ReloadReport:
        """Rebuilds from the database as it is now. Callers that come while a build is under way
        share the next one, so that many writes cost few builds."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._rebuild_next())
        return await asyncio.shield(self._next)

    def start(self) -> None:
        """Begins to poll the revision."""
        self._polling = asyncio.get_running_loop().create_task(self._poll())

    async def aclose(self) -> None:
        """Stops polling."""
        for task in (self._polling, self._next):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def _rebuild_next(self) -> ReloadReport:
        async with self._building:
            self._next = None
            return await self._rebuild()

    async def _rebuild(self) -> ReloadReport:
        began = time.monotonic()
        try:
            rows = await self._store.load()
            snapshot = await asyncio.to_thread(self._build, rows)
        except Exception as error:
            self._live.reject(str(error))
            raise
        for row in snapshot.quarantined:
            _log.warning("%s %s is left out: %s", row.kind, row.slug, row.reason)
        self._live.swap(snapshot)
        self._swapped(snapshot)
        duration = (time.monotonic() - began) * 1000
        return ReloadReport(snapshot.revision, snapshot.entities, round(duration, 3))

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            try:
                if await self._store.revision() != self._live.current.revision:
                    await self.refresh()
            except StorageUnavailableError as error:
                self._live.reject(str(error))
            except Exception:  # noqa: BLE001 - the next poll tries again
                _log.exception("the catalog could not be rebuilt; the last good one stays")
