"""Processes that claim from one table of limits, as the workers of a machine do."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TypeVar

from relay_gateway.errors import StateBusyError
from relay_gateway.limits.shared_store import SharedStore
from relay_gateway.limits.table import Table
from relay_gateway.plugin import Hold, PluginConfig, PluginContext

ROWS = 8
SLOTS = 4096
PATIENCE = 30.0
STALL = "stall"
T = TypeVar("T")


def shared_store(directory: Path) -> SharedStore:
    """A store over the table in ``directory``, not opened."""
    context = PluginContext(plugin="memory", data_dir=directory, database_url="")
    return SharedStore(PluginConfig(), context, directory=directory, rows=ROWS, slots=SLOTS)


@dataclass(frozen=True, slots=True)
class LimitWorker:
    """A process with a store of its own over the common table; it claims when told to."""

    process: BaseProcess
    line: Connection

    @classmethod
    def start(cls, directory: Path) -> LimitWorker:
        """Starts one, and waits until its store is open."""
        context = multiprocessing.get_context("spawn")
        mine, its = context.Pipe()
        process = context.Process(target=_live, args=(directory, its), daemon=True)
        process.start()
        its.close()
        worker = cls(process, mine)
        assert worker.line.recv() == "open"
        return worker

    def ask(self, hold: Hold, times: int, *, cancel_every: int = 0) -> None:
        """Has it claim ``hold`` so often; every so many-th claim is given back at once."""
        self.line.send((hold, times, cancel_every))

    def granted(self) -> int:
        """How many of the claims were granted and kept."""
        count: int = self.line.recv()
        return count

    def stall(self) -> None:
        """Stops it while it has the table to itself, for as long as :meth:`go_on` is not called."""
        self.line.send(STALL)
        assert self.line.recv() == STALL
        _, status = os.waitpid(self._pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)

    def go_on(self) -> None:
        """Lets a stopped one go on."""
        os.kill(self._pid, signal.SIGCONT)
        assert self.line.recv() == "free"

    @property
    def _pid(self) -> int:
        pid = self.process.pid
        assert pid is not None
        return pid

    def kill(self) -> None:
        """Ends it with what it holds, as ``kill -9`` does."""
        self.process.kill()
        self.process.join()

    def end(self) -> None:
        """Ends it in order."""
        with suppress(OSError):
            self.line.send(None)
        self.process.join(10)


def claimed_by_all(workers: Sequence[LimitWorker], hold: Hold, times: int) -> int:
    """How many of ``times`` claims by each of the workers at once were granted."""
    for worker in workers:
        worker.ask(hold, times, cancel_every=3)
    return sum(worker.granted() for worker in workers)


def _stall(directory: Path, line: Connection) -> None:
    table = Table(directory, ROWS, 0.0, SLOTS)
    when_free(table.lock)
    line.send(STALL)
    os.kill(os.getpid(), signal.SIGSTOP)
    table.unlock()
    table.close()
    line.send("free")


def when_free(call: Callable[[], T]) -> T:
    """The answer of a store that may be busy for a while."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return call()
        except StateBusyError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(0.001)


def _live(directory: Path, line: Connection) -> None:
    store = shared_store(directory)
    asyncio.run(store.aopen())
    line.send("open")
    number = 0
    while (order := line.recv()) is not None:
        if order == STALL:
            _stall(directory, line)
            continue
        hold, times, cancel_every = order
        kept = 0
        for _ in range(times):
            number += 1
            request_id = f"{multiprocessing.current_process().pid}-{number}"
            if when_free(partial(store.reserve_now, request_id, (hold,))).refused >= 0:
                continue
            if cancel_every and number % cancel_every == 0:
                when_free(partial(store.settle_now, request_id, (hold,), (0,)))
            else:
                kept += 1
        line.send(kept)
