"""From a settled request to the sinks: into the spool at once, from there to each at its pace."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from relay_gateway.delivery.disk import Disk
from relay_gateway.delivery.journal import RESERVE, Journal
from relay_gateway.delivery.line import Line, Pace
from relay_gateway.delivery.lines import Lines
from relay_gateway.delivery.payload_desk import MEMORY_BYTES, PayloadDesk
from relay_gateway.delivery.segments import Segment
from relay_gateway.delivery.set_aside import SetAside
from relay_gateway.delivery.spool import ADOPT_SECONDS, Spool, SpoolTerms
from relay_gateway.delivery.stream import Stream
from relay_gateway.delivery.taking import (
    ConsumerTaker,
    Portion,
    PositionedConsumer,
    SinkTaker,
    Taker,
)
from relay_gateway.delivery.view import MEMORY
from relay_gateway.ids import instance_name
from relay_gateway.plugin.payloads import PayloadLogger, PayloadRecord
from relay_gateway.plugin.usage import UsageRecord, UsageSink

TEND_SECONDS = 0.2
"""How often the disk is made to hold what was written, and the bound of what a loss of power can
take."""
OVERLOADED = "overloaded"

Report = Callable[[str, Exception], None]
_log = logging.getLogger(__name__)


class Delivery:
    """Every usage record and every payload of this process.

    ``usage_sink`` and ``payload_logger`` find plugins by name and raise
    :class:`PluginUnavailableError`; ``report`` is told of each failure of one. ``finished`` is
    called with kind and name of one that was switched off and has everything it was to get.
    """

    def __init__(
        self,
        data_dir: Path,
        usage_sink: Callable[[str], UsageSink[Any]],
        payload_logger: Callable[[str], PayloadLogger[Any]],
        report: Report,
        *,
        report_payload: Report | None = None,
        finished: Callable[[str, str], None] = lambda _kind, _name: None,
        terms: SpoolTerms | None = None,
        disk: Disk | None = None,
        pace: Pace | None = None,
        memory: int = MEMORY,
        payload_memory: int = MEMORY_BYTES,
        reserve: int = RESERVE,
    ) -> None:
        disk = disk or Disk()
        self._due = asyncio.Event()
        self._finished = finished
        self.spool = Spool(
            data_dir,
            disk,
            instance_name(),
            terms or SpoolTerms(),
            self._due.set,
            self._dropped,
            reserve,
        )
        self._aside = SetAside(self.spool.root, disk)
        self._journal = self.spool.usage

        def line_of(
            tell: Report, room: int, name: str, taker: Taker[Any], own: Journal[Any]
        ) -> Line[Any]:
            return Line(name, taker, own, disk, self._aside, tell, pace=pace, memory=room)

        self.usage_lines: Lines[UsageRecord] = Lines(
            self.spool.usage,
            lambda name: _taker_of(name, usage_sink),
            partial(line_of, report, memory),
        )
        self.payload_lines: Lines[PayloadRecord] = Lines(
            self.spool.payloads,
            lambda name: _taker_of(name, payload_logger),
            partial(line_of, report_payload or report, 0),
        )
        self.desk = PayloadDesk(self.spool, self.payload_lines, payload_memory)
        self._task: asyncio.Task[None] | None = None

    async def open(
        self, sinks: Sequence[str], consumers: Sequence[PositionedConsumer[UsageRecord]] = ()
    ) -> None:
        """Begins: what earlier processes have left is taken over, then records go to ``sinks``.
        Never fails: without a disk records wait in memory."""
        for consumer in consumers:
            self.usage_lines.follow(consumer.name, ConsumerTaker(consumer))
        await self._adopt()
        self.switch(sinks)
        await self.spool.mend()
        self.desk.start()
        self._task = asyncio.get_running_loop().create_task(self._tend())

    def announce(self, request_id: str, opened: object) -> None:
        """A request is about to be sent to an upstream; ``opened`` are the fields of
        :class:`.Opened` in their order."""
        self._journal.announce(request_id, opened)

    def hold(self) -> None:
        """Gathers what is announced and put until :meth:`release`, for one write of all of it."""
        self._journal.hold()

    def release(self) -> None:
        """Writes what was gathered: records and announcements are on their way to the disk when it
        returns."""
        self._journal.release()

    def put(self, record: UsageRecord) -> None:
        """Takes the record of a finished request."""
        journal = self._journal
        if journal.reserve and journal.full and record.error_code == OVERLOADED:
            journal.dropped += 1  # so that those of requests in flight have room
            return
        self.usage_lines.put(journal.append(record, record.request_id), record)

    def put_payload(self, record: PayloadRecord) -> None:
        """Takes the payload of a finished request, or drops it where there is no memory for it."""
        self.desk.put(record)

    def switch(self, sinks: Sequence[str]) -> None:
        """Has the records from now on go to ``sinks``."""
        self.usage_lines.switch(sinks)

    def switch_payloads(self, loggers: Sequence[str]) -> None:
        """Has the payloads from now on go to ``loggers``."""
        self.desk.then(partial(self.payload_lines.switch, tuple(loggers)))

    def renew(self) -> None:
        """Looks again for sinks that could not be had, after plugins were changed."""
        self.usage_lines.renew()
        self.desk.then(self.payload_lines.renew)

    @property
    def full(self) -> bool:
        """Whether no further request may begin, because its record would have no room."""
        journal = self._journal
        return bool(journal.reserve) and journal.full

    @property
    def lines(self) -> Sequence[Line[UsageRecord]]:
        """The lines of usage sinks."""
        return self.usage_lines.all

    def troubles(self) -> Iterator[tuple[str, str]]:
        """What does not work, and why."""
        if self.spool.trouble:
            yield "spool", f"records are kept in memory: {self.spool.trouble}"
        for spool, reason in self.spool.unreadable.items():
            yield f"spool {spool}", reason
        for word, lines in (
            ("usage sink", self.usage_lines),
            ("payload logger", self.payload_lines),
        ):
            yield from _troubles(word, lines)

    def tasks(self) -> Iterator[asyncio.Task[None] | None]:
        """Everything that runs for it."""
        yield self._task
        yield self.desk.task
        for line in self.usage_lines.all:
            yield line.task
        for logger in self.payload_lines.all:
            yield logger.task

    async def aclose(self, deadline: float) -> None:
        """Hands over what is left, for at most ``deadline`` seconds; the rest stays in the spool,
        for the next process that starts."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            await self.desk.aclose()
        left, payloads = await asyncio.gather(
            self.usage_lines.aclose(deadline), self.payload_lines.aclose(deadline)
        )
        if left or payloads:
            _log.warning(
                "%d usage records and %d payloads stay in the spool until the next start",
                left, payloads,
            )  # fmt: skip
        await self.spool.aclose()

    async def _adopt(self) -> None:
        for orphan in await self.spool.adopt():
            # A process that is killed again and again must not begin with the same ones each time.
            orphan.usage.on_left = orphan.payloads.on_left = self._due.set
            self.usage_lines.take_over(orphan.usage, orphan.usage_sinks)
            self.payload_lines.take_over(orphan.payloads, orphan.payload_loggers)

    async def _tend(self) -> None:
        loop = asyncio.get_running_loop()
        adopt_at = loop.time() + ADOPT_SECONDS
        while True:
            self._due.clear()
            try:
                async with asyncio.timeout(TEND_SECONDS):
                    await self._due.wait()
            except TimeoutError:
                pass
            try:
                await self.spool.tend()
                self._clear()
                if loop.time() >= adopt_at:
                    # Spread, so that the workers of one machine do not all look at once.
                    adopt_at = loop.time() + ADOPT_SECONDS * random.uniform(0.8, 1.2)  # noqa: S311
                    await self._adopt()
            except Exception:  # noqa: BLE001 - the next time may be better
                _log.exception("the spool could not be tended")

    def _clear(self) -> None:
        for name in self.usage_lines.clear():
            self._finished("usage sink", name)
        for name in self.payload_lines.clear():
            self._finished("payload logger", name)

    def _dropped(self, stream: Stream[Any], segment: Segment) -> None:
        """Counts what is given up with a segment, for each sink that had not taken it."""
        lines: Lines[Any] = self.usage_lines if stream.kind == "usage" else self.payload_lines
        for line in lines.all:
            if line.name in stream.readers:
                missing = segment.last - stream.acknowledged.get(line.name, 0)
                line.drop(max(0, min(segment.records, missing)))


def _troubles(word: str, lines: Lines[Any]) -> Iterator[tuple[str, str]]:
    for name, reason in {**lines.held, **lines.missing}.items():
        waiting = "; what was left for it stays in the spool" if name in lines.held else ""
        yield f"{word} {name}", f"{reason}{waiting}"
    for line in lines.all:
        said = [line.trouble] if line.trouble else []
        said += [f"{line.dropped} records dropped"] if line.dropped else []
        said += [f"{line.set_aside} records set aside"] if line.set_aside else []
        if said:
            yield f"{word} {line.name}", "; ".join(said)


def _taker_of(
    name: str, find: Callable[[str], UsageSink[Any] | PayloadLogger[Any]]
) -> SinkTaker[Any]:
    sink = find(name)
    portion = Portion(sink.batch_records, sink.batch_bytes, sink.batch_seconds)

    async def write(records: Sequence[Any]) -> None:
        # Found each time: another instance may have taken its place.
        await find(name).write(records)

    return SinkTaker(write, portion)
