"""The spool of a process: its directory, the two journals in it, and the orphans it has adopted."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from relay_gateway.delivery.acknowledged import write_acknowledged
from relay_gateway.delivery.directories import Claim, Directories
from relay_gateway.delivery.disk import Disk
from relay_gateway.delivery.journal import FULL, RESERVE, Journal, Sync
from relay_gateway.delivery.recovery import Orphan, recover
from relay_gateway.delivery.segments import SEGMENT_BYTES, Segment
from relay_gateway.delivery.stream import Stream
from relay_gateway.ids import new_id
from relay_gateway.plugin.payloads import PayloadRecord
from relay_gateway.plugin.usage import UsageRecord

DIRECTORY = "spool"
MEND_SECONDS = 1.0
ADOPT_SECONDS = 5.0

Dropped = Callable[[Stream[Any], Segment], None]
_log = logging.getLogger(__name__)


class SpoolTerms(msgspec.Struct, frozen=True):
    """``sync`` tells when the disk must hold what was written; ``max_bytes`` is how large the spool
    may become, ``segment_bytes`` how large one file."""

    sync: Sync = "interval"
    max_bytes: int = 1024**3
    segment_bytes: int = SEGMENT_BYTES


class Spool:
    """Files of usage and payload records below ``data_dir``; ``dropped`` is called with each
    segment that is given up."""

    def __init__(
        self,
        data_dir: Path,
        disk: Disk,
        instance: str,
        terms: SpoolTerms,
        on_trouble: Callable[[], None],
        dropped: Dropped,
        reserve: int = RESERVE,
    ) -> None:
        self.root = data_dir / DIRECTORY
        self._directories = Directories(self.root, disk)
        self._disk = disk
        self._terms = terms
        self._dropped = dropped
        self._claim: Claim | None = None
        self._mend_at = 0.0
        self._tending = asyncio.Lock()
        self._damaged: Counter[str] = Counter()
        """What orphans that are gone had of it."""
        self.orphans: list[Orphan] = []
        self.unreadable: dict[str, str] = {}
        """Spools of killed processes that cannot be taken over, and why."""
        spool = new_id()
        segment_bytes = max(4096, min(terms.segment_bytes, terms.max_bytes // 8))
        self.usage: Journal[UsageRecord] = Journal(
            spool,
            "usage",
            msgspec.msgpack.Decoder(UsageRecord).decode,
            disk,
            instance,
            sync=terms.sync,
            on_trouble=on_trouble,
            segment_bytes=segment_bytes,
            reserve=reserve,
        )
        self.payloads: Journal[PayloadRecord] = Journal(
            spool,
            "payload",
            msgspec.msgpack.Decoder(PayloadRecord).decode,
            disk,
            instance,
            sync="never" if terms.sync == "never" else "interval",
            segment_bytes=segment_bytes,
            reserve=0,
        )
        self.payload_lock = asyncio.Lock()
        """Held by whoever writes payloads, which is done in a thread."""

    @property
    def streams(self) -> list[Stream[Any]]:
        """All of them, those that go first when there is no room first."""
        orphans = self.orphans
        return [
            *(orphan.payloads for orphan in orphans), self.payloads,
            *(orphan.usage for orphan in orphans), self.usage,
        ]  # fmt: skip

    def damaged(self, kind: str) -> int:
        """How many places in files of this kind could not be read."""
        return self._damaged[kind] + sum(one.damaged for one in self.streams if one.kind == kind)

    @property
    def trouble(self) -> str:
        """Why records are not written to the disk, empty while they are."""
        return str(self.usage.failure or self.payloads.failure or "")

    @property
    def lock(self) -> int | None:
        """The descriptor that holds the lock of its directory, once it has one."""
        return self._claim.lock if self._claim is not None else None

    @property
    def due(self) -> bool:
        """Whether a file has to be begun anew, and it is time to try."""
        broken = not (self.usage.written and self.payloads.written)
        return broken and time.monotonic() >= self._mend_at

    async def adopt(self) -> list[Orphan]:
        """Takes over the spools of processes that are gone, oldest first."""
        try:
            claims = await asyncio.to_thread(self._directories.orphans)
        except OSError as error:
            _log.warning("%s cannot be looked through: %s", self.root, error)
            return []
        return [orphan for claim in claims if (orphan := await self._recover(claim)) is not None]

    async def _recover(self, claim: Claim) -> Orphan | None:
        try:
            orphan = await asyncio.to_thread(recover, claim, self._disk)
        except OSError as error:
            if claim.spool not in self.unreadable:
                _log.error("the spool %s cannot be taken over: %s", claim.path, error)
            self.unreadable[claim.spool] = str(error)
            await asyncio.to_thread(self._directories.release, claim)
            return None
        self.unreadable.pop(claim.spool, None)
        self.orphans.append(orphan)
        _log.info(
            "took over the spool %s, with %d requests that were not finished",
            claim.path, orphan.interrupted,
        )  # fmt: skip
        return orphan

    async def mend(self) -> None:
        """Begins files where there are none: at the start, and after a failure. Usage comes first,
        and payloads make room for it."""
        async with self._tending:
            await self._mend()

    async def _mend(self) -> None:
        try:
            await self._claim_directory()
            await self.usage.mend()
            async with self.payload_lock:
                await self.payloads.mend()
        except OSError as error:
            self._mend_at = time.monotonic() + MEND_SECONDS
            self.usage.failure = self.usage.failure if self.usage.written else error
            if not self.usage.written and error.errno in FULL:
                await self._make_room()

    async def tend(self) -> None:
        """What is due again and again: syncing, going on in new files, letting go of old ones."""
        async with self._tending:
            await self._tend()

    async def _tend(self) -> None:
        await self.usage.sync()
        self.usage.forget()
        try:
            await self.usage.rotate()
            async with self.payload_lock:
                await self.payloads.sync()
                await self.payloads.rotate()
        except OSError as error:
            _log.warning("the spool cannot go on in another file yet: %s", error)
        if self.due:
            await self._mend()
        for stream in self.streams:
            for segment in stream.spare():
                if not await self._remove(stream, segment):
                    break  # a newer one must not go before: it tells how requests ended
        await self._keep_cap()
        await self._write_acknowledged()
        await self._let_go_of_orphans()

    async def aclose(self) -> None:
        """Syncs everything. A spool that was delivered goes, any other waits for the next start."""
        self.usage.forget()
        if self.usage.reserve:
            await self.mend()
        await self.usage.end()
        async with self.payload_lock:
            await self.payloads.end()
        await self._write_acknowledged()
        await self._let_go_of_orphans()
        for orphan in self.orphans:
            await asyncio.to_thread(self._directories.release, orphan.claim)
        if self._claim is not None:
            empty = all(
                journal.done >= journal.number and not journal.reserve
                for journal in (self.usage, self.payloads)
            )
            end = self._directories.remove if empty else self._directories.release
            await self._quietly(end, self._claim)

    async def _claim_directory(self) -> None:
        if self._claim is None:
            self._claim = claim = await asyncio.to_thread(self._directories.own, self.usage.spool)
            self.usage.directory = self.payloads.directory = claim.path

    async def _make_room(self) -> None:
        """Gives up the oldest payloads for usage, when the file system is full."""
        if self.payloads.written and len(self.payloads.segments) == 1:
            async with self.payload_lock:
                self.payloads.close_segment()
        for stream in self.streams:
            closed = _closed(stream)
            if stream.kind == "payload" and closed:
                await self._give_up(stream, closed[0])
                self._mend_at = 0.0
                return

    async def _keep_cap(self) -> None:
        """Gives up what is oldest, payloads first, until the spool is as small as it should be."""
        while sum(stream.size for stream in self.streams) > self._terms.max_bytes:
            stream = next((one for one in self.streams if _closed(one)), None)
            if stream is None or not await self._give_up(stream, _closed(stream)[0]):
                return

    async def _give_up(self, stream: Stream[Any], segment: Segment) -> bool:
        removed = await self._remove(stream, segment)
        if removed:
            self._dropped(stream, segment)
        return removed

    async def _remove(self, stream: Stream[Any], segment: Segment) -> bool:
        removed = await self._quietly(self._disk.unlink, segment.path)
        removed = removed or not segment.path.exists()
        if removed:
            stream.segments.remove(segment)
        return removed

    async def _write_acknowledged(self) -> None:
        if self._claim is not None:
            await self._write_for(self._claim, (self.usage, self.payloads))
        for orphan in self.orphans:
            await self._write_for(orphan.claim, (orphan.usage, orphan.payloads))

    async def _write_for(self, claim: Claim, streams: Sequence[Stream[Any]]) -> None:
        if not any(stream.dirty for stream in streams):
            return
        positions = {stream.kind: dict(stream.acknowledged) for stream in streams}
        for stream in streams:
            stream.dirty = False
        if not await self._quietly(write_acknowledged, self._disk, claim.path, positions):
            for stream in streams:
                stream.dirty = True

    async def _let_go_of_orphans(self) -> None:
        for orphan in [orphan for orphan in self.orphans if orphan.delivered]:
            self.orphans.remove(orphan)
            self._damaged.update(usage=orphan.usage.damaged, payload=orphan.payloads.damaged)
            await self._quietly(self._directories.remove, orphan.claim)

    async def _quietly(self, call: Callable[..., None], *arguments: Any) -> bool:
        """Calls in a thread; a failure is logged, and costs no more than a repetition."""
        try:
            await asyncio.to_thread(call, *arguments)
        except OSError as error:
            _log.warning("spool: %s", error)
            return False
        return True


def _closed(stream: Stream[Any]) -> Sequence[Segment]:
    """The segments that can be given up: nothing is written to them any more."""
    if isinstance(stream, Journal) and stream.written:
        return stream.segments[:-1]
    return stream.segments
