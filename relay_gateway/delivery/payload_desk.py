"""Payloads on their way to the spool: written in a thread, and given up before they take too much
memory."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from relay_gateway.delivery.lines import Lines
from relay_gateway.delivery.spool import Spool
from relay_gateway.plugin.payloads import PayloadRecord

MEMORY_BYTES = 64 * 1024 * 1024
"""How much payloads may take together that are not written yet."""
AT_ONCE = 64

_log = logging.getLogger(__name__)


class PayloadDesk:
    """Takes payloads from the request path and writes them in their order."""

    def __init__(
        self, spool: Spool, lines: Lines[PayloadRecord], memory_bytes: int = MEMORY_BYTES
    ) -> None:
        self.dropped = 0
        """Payloads that there was no memory for."""
        self.held_bytes = 0
        self._spool = spool
        self._lines = lines
        self._memory_bytes = memory_bytes
        self._waiting: deque[PayloadRecord | Callable[[], None]] = deque()
        self._arrived = asyncio.Event()
        self._closing = False
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to write."""
        self.task = asyncio.get_running_loop().create_task(self._run())

    def put(self, record: PayloadRecord) -> bool:
        """Takes a payload; whether there was memory for it. Never blocks."""
        size = _size(record)
        if self.held_bytes + size > self._memory_bytes:
            self.dropped += 1
            if self.dropped.bit_count() == 1:
                _log.error("%d payloads dropped so far: no memory to hold them", self.dropped)
            return False
        self.held_bytes += size
        self._waiting.append(record)
        self._arrived.set()
        return True

    def then(self, act: Callable[[], None]) -> None:
        """Does something after the payloads that are here now, and before those to come."""
        self._waiting.append(act)
        self._arrived.set()

    async def aclose(self) -> None:
        """Writes what is left."""
        self._closing = True
        self._arrived.set()
        if self.task is not None:
            await self.task

    async def _run(self) -> None:
        while self._waiting or not self._closing:
            if not self._waiting:
                self._arrived.clear()
                await self._arrived.wait()
                continue
            first = self._waiting[0]
            if isinstance(first, PayloadRecord):
                await self._write(self._take())
            else:
                async with self._spool.payload_lock:
                    self._waiting.popleft()
                    first()

    def _take(self) -> list[PayloadRecord]:
        taken: list[PayloadRecord] = []
        while self._waiting and len(taken) < AT_ONCE:
            record = self._waiting[0]
            if not isinstance(record, PayloadRecord):
                break
            taken.append(record)
            self._waiting.popleft()
        return taken

    async def _write(self, records: Sequence[PayloadRecord]) -> None:
        append = self._spool.payloads.append
        try:
            async with self._spool.payload_lock:
                numbers = await asyncio.to_thread(lambda: [append(record) for record in records])
            for number, record in zip(numbers, records, strict=True):
                self._lines.put(number, record)
        finally:
            self.held_bytes -= sum(map(_size, records))


def _size(record: PayloadRecord) -> int:
    return len(record.request) + len(record.response) + len(record.text or "") + 1024
