"""Last uses of relay keys: noted in memory per request, written once in a while and coarsely.

A time is good to the minute. The database being down costs nothing but fresh figures: what could
not be written is kept, one entry per key, until it can.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping
from typing import Protocol

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.plugin.usage import UsageRecord

WRITE_SECONDS = 60.0

_log = logging.getLogger(__name__)


class UsesStore(Protocol):
    """Where uses are kept."""

    async def merge(self, uses: Mapping[str, str]) -> None:
        """Keeps the later of what is known and ``uses``, times by id of the relay key."""


class LastUses:
    """Notes the relay keys of settled requests and hands them to ``store`` every
    ``write_seconds``."""

    def __init__(self, store: UsesStore, write_seconds: float = WRITE_SECONDS) -> None:
        self._store = store
        self._write_seconds = write_seconds
        self._noted: dict[str, str] = {}
        self._written: dict[str, str] = {}
        self._failing = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to write."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def note(self, record: UsageRecord) -> None:
        """Takes one record from the request path; a request without a valid key is no use."""
        key_id = record.relay_key_id
        if key_id is not None and self._noted.get(key_id, "") < record.started_at:
            self._noted[key_id] = record.started_at

    async def write(self) -> None:
        """Writes the uses since the last time; those that cannot be written stay for the next."""
        noted, self._noted = self._noted, {}
        minutes = {key_id: _minute(moment) for key_id, moment in noted.items()}
        fresh = {k: minute for k, minute in minutes.items() if self._written.get(k, "") < minute}
        if not fresh:
            return
        try:
            await self._store.merge(fresh)
        except BaseException as error:
            self._noted = {**noted, **self._noted}
            if not isinstance(error, StorageUnavailableError):
                raise
            if not self._failing:
                _log.warning("last uses of relay keys are written later: %s", error)
            self._failing = True
        else:
            self._failing = False
            self._written.update(fresh)

    async def aclose(self, deadline: float) -> None:
        """Writes what is left, for at most ``deadline`` seconds."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(deadline):
                await self.write()
        except TimeoutError:
            _log.warning("the last uses of relay keys were not written before the end")

    async def _run(self) -> None:
        while True:
            # Spread, so that the processes of a fleet do not all write at the same moment.
            await asyncio.sleep(self._write_seconds * random.uniform(0.8, 1.2))  # noqa: S311
            try:
                await self.write()
            except Exception:  # noqa: BLE001 - the next time may be better
                _log.exception("the last uses of relay keys could not be written")


def _minute(moment: str) -> str:
    """An RFC 3339 UTC time without its seconds."""
    return f"{moment[:16]}:00Z"
