"""The sink: writes batches, and gives records and totals back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeVar

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.plugin import (
    LogPage,
    LogQuery,
    PluginContext,
    SeriesQuery,
    UsagePoint,
    UsageQuery,
    UsageReader,
    UsageRecord,
    UsageRow,
    UsageSink,
)
from relay_gateway_log_file.archive import Archive
from relay_gateway_log_file.config import FileSinkConfig, locate
from relay_gateway_log_file.folder import Folder
from relay_gateway_log_file.journal import Journal, Rules
from relay_gateway_log_file.output import Output, unavailable
from relay_gateway_log_file.pages import find_page, find_record
from relay_gateway_log_file.stdout import StandardOutput
from relay_gateway_log_file.summary import summarize, timeseries
from relay_gateway_log_file.tidier import Retention, Tidier
from relay_gateway_log_file.upkeep import Upkeep

T = TypeVar("T")

A_DAY = 86400
PERIODS = {"never": 0, "hourly": 3600, "daily": A_DAY}
"""Seconds between rotations."""


class FileSink(UsageSink[FileSinkConfig], UsageReader):
    """Usage records as lines of JSON. Several processes may use the same files.

    Raises :class:`StorageUnavailableError` when the files cannot be used, and
    :class:`ValueError` for a query that is wrong or would read too much.
    """

    name: ClassVar[str] = "file"
    reads: ClassVar[bool] = True
    Config = FileSinkConfig

    def __init__(self, config: FileSinkConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self._path = locate(config, context)
        if self._path is None:
            # This one cannot; who looks for a reader goes on to the next sink.
            self.reads = False  # type: ignore[misc]
        self._output: Output | None = None
        self._archive: Archive | None = None
        self._upkeep: Upkeep | None = None
        self._running: set[asyncio.Future[Any]] = set()

    async def aopen(self) -> None:
        """Makes the directory and the file where they are missing; may be tried again."""
        await self.aclose()
        if self._path is None:
            self._output = await self._in_thread(self._open_stdout)
        else:
            await self._open_files(Folder(self._path))

    async def aclose(self) -> None:
        """Waits for batches under way, then for the disk where that is wanted."""
        await asyncio.gather(*self._running, return_exceptions=True)
        upkeep, self._upkeep = self._upkeep, None
        output, self._output = self._output, None
        self._archive = None
        if upkeep is not None:
            await upkeep.aclose()
        if output is not None:
            await self._in_thread(output.close)

    async def write(self, records: Sequence[UsageRecord]) -> None:
        """Appends a batch, all of it or nothing; records that were written lately are left out."""
        rotated = await self._in_thread(_opened(self._output).write, records)
        if self._upkeep is not None:
            self._upkeep.wrote(rotated)

    async def get(self, request_id: str) -> UsageRecord | None:
        """One record, or ``None``, for which every file is searched."""
        return await self._in_thread(find_record, _opened(self._archive), request_id)

    async def query(self, query: LogQuery) -> LogPage:
        """A page of records, newest first; at most 1000."""
        return await self._in_thread(find_page, _opened(self._archive), query)

    async def summarize(self, query: UsageQuery) -> Sequence[UsageRow]:
        """Totals per group, largest number of requests first."""
        return await self._in_thread(summarize, _opened(self._archive), query)

    async def timeseries(self, query: SeriesQuery) -> Sequence[UsagePoint]:
        """Totals per step and group, oldest step first."""
        return await self._in_thread(timeseries, _opened(self._archive), query)

    async def _open_files(self, folder: Folder) -> None:
        config, context = self.config, self.context
        journal = Journal(folder, _rules(config), context.clock, context.logger)
        await self._in_thread(journal.open)
        tidier = Tidier(folder, _retention(config), context.clock, context.logger)
        interval = config.sync_seconds if config.sync == "interval" else None
        self._output = journal
        self._archive = Archive(folder, config.read_bytes, context.logger)
        self._upkeep = Upkeep(journal, tidier, context, interval)
        self._upkeep.tidy()

    def _open_stdout(self) -> StandardOutput:
        folder = Folder(self.context.data_dir.absolute() / "usage" / "stdout")
        folder.make()
        return StandardOutput(folder.writing)

    async def _in_thread(self, call: Callable[..., T], *args: object) -> T:
        """Lets ``call`` end by itself when the wait for it is cancelled, and be known as running
        until then."""
        future = asyncio.ensure_future(self.context.run_blocking(call, *args))
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        with unavailable(f"usage file {self._path or 'standard output'}"):
            return await asyncio.shield(future)


def _rules(config: FileSinkConfig) -> Rules:
    return Rules(
        size=config.max_bytes,
        period=PERIODS[config.rotate],
        synced=config.sync == "always",
        durable=config.sync != "never",
    )


def _retention(config: FileSinkConfig) -> Retention:
    days = config.retention_days
    return Retention(
        compress=config.compress,
        seconds=None if days is None else days * A_DAY,
        size=config.retention_bytes,
    )


def _opened(part: T | None) -> T:
    if part is None:
        raise StorageUnavailableError(
            "the usage file is not open, or is standard output and cannot be read: see "
            "`relay-gateway plugins list`"
        )
    return part
