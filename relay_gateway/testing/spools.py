"""Deliveries in one data directory, which end as processes do: in order, or killed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from relay_gateway.delivery.delivery import Delivery
from relay_gateway.delivery.disk import Disk
from relay_gateway.delivery.line import Pace
from relay_gateway.delivery.spool import SpoolTerms
from relay_gateway.errors import PluginUnavailableError
from relay_gateway.plugin import PayloadLogger, PayloadRecord, PluginConfig, UsageRecord, UsageSink
from relay_gateway.testing.context import plugin_context

T = TypeVar("T")
FAST = Pace(batch=0.001, answer=5.0, first_retry=0.002, last_retry=0.01)


class ScriptedSink(UsageSink[PluginConfig]):
    """Keeps what it takes in ``records``, in order and with repetitions.

    While ``down`` it takes nothing; it refuses batches with a request id of ``poison``; while
    ``gate`` is clear it does not answer. With ``forget_answers`` it takes a batch and then fails,
    that many times.
    """

    name = "scripted"

    def __init__(self, directory: Path) -> None:
        super().__init__(PluginConfig(), plugin_context(directory))
        self.records: list[UsageRecord] = []
        self.writes = 0
        self.down = False
        self.poison: set[str] = set()
        self.forget_answers = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def write(self, records: Sequence[UsageRecord]) -> None:
        await self.gate.wait()
        self.writes += 1
        if self.down:
            raise ConnectionError("down")
        if self.poison & {record.request_id for record in records}:
            raise ValueError("one of the records is refused")
        self.records += records
        if self.forget_answers:
            self.forget_answers -= 1
            raise ConnectionError("the answer was lost")

    @property
    def ids(self) -> list[str]:
        """The request ids of what it took."""
        return [record.request_id for record in self.records]


class ScriptedLogger(PayloadLogger[PluginConfig]):
    """The same of payloads."""

    name = "scripted"

    def __init__(self, directory: Path) -> None:
        super().__init__(PluginConfig(), plugin_context(directory))
        self.records: list[PayloadRecord] = []
        self.down = False

    async def write(self, records: Sequence[PayloadRecord]) -> None:
        if self.down:
            raise ConnectionError("down")
        self.records += records


class SpoolWorld:
    """Opens deliveries in ``directory``. ``sinks`` and ``loggers`` are those that are installed."""

    def __init__(self, directory: Path, *sinks: str) -> None:
        self.directory = directory
        self.sinks = {name: ScriptedSink(directory) for name in sinks or ("one",)}
        self.loggers = {"kept": ScriptedLogger(directory)}
        self.finished: list[tuple[str, str]] = []
        self._open: list[Delivery] = []

    async def open(
        self,
        *sinks: str,
        disk: Disk | None = None,
        terms: SpoolTerms | None = None,
        consumers: Sequence[Any] = (),
        **more: Any,
    ) -> Delivery:
        """A delivery to ``sinks``, by default to all."""
        delivery = Delivery(
            self.directory,
            self._sink,
            self._logger,
            lambda _name, _error: None,
            finished=lambda kind, name: self.finished.append((kind, name)),
            terms=terms,
            disk=disk,
            pace=FAST,
            **more,
        )
        self._open.append(delivery)
        await delivery.open(sinks or tuple(self.sinks), consumers)
        return delivery

    async def close(self, delivery: Delivery, seconds: float = 5.0) -> None:
        """Ends it in order."""
        self._open.remove(delivery)
        await delivery.aclose(seconds)

    async def kill(self, delivery: Delivery) -> None:
        """Ends it as SIGKILL does: nothing more is written, and its lock is free."""
        self._open.remove(delivery)
        tasks = [task for task in delivery.tasks() if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if (lock := delivery.spool.lock) is not None:
            os.close(lock)

    async def aclose(self) -> None:
        """Kills what is open."""
        for delivery in list(self._open):
            await self.kill(delivery)

    @property
    def spools(self) -> list[str]:
        """The directories of spools that there are."""
        root = self.directory / "spool"
        return (
            sorted(path.name for path in root.iterdir() if path.is_dir()) if root.exists() else []
        )

    def _sink(self, name: str) -> UsageSink[Any]:
        return _found(self.sinks, name)

    def _logger(self, name: str) -> PayloadLogger[Any]:
        return _found(self.loggers, name)


def _found(installed: Mapping[str, T], name: str) -> T:
    if name not in installed:
        raise PluginUnavailableError(f"there is no {name}")
    return installed[name]
