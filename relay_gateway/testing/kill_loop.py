"""A loop of processes that deliver records and are killed in the middle of it.

``python -m relay_gateway.testing.kill_loop DIRECTORY KILLS SEED`` forks one process after another,
each of which works in the same data directory until SIGKILL meets it; the last one ends in order.
Every process writes into a ledger what it is about to do and what it has done, and a sink of its
own keeps records by request id. :func:`judge` compares the two.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import sqlite3
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from relay_gateway.delivery.delivery import Delivery
from relay_gateway.delivery.line import Pace
from relay_gateway.delivery.opened import INTERRUPTED
from relay_gateway.delivery.spool import SpoolTerms
from relay_gateway.ids import new_id
from relay_gateway.plugin import PluginConfig, UsageRecord, UsageSink
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.instances import until
from relay_gateway.testing.records import usage_record

LONGEST_LIFE = 0.1
"""Seconds after which a process is killed at the latest, once it works."""
EARLY = 0.1
"""The share of processes that are killed whether or not they work yet."""
IN_FLIGHT = 8
DRAIN_SECONDS = 60.0

ABOUT, ASKED, ANSWERED = "B", "A", "D"
_LINE = re.compile(r"([BAD]) ([0-9a-f-]{36})\n")


class TableSink(UsageSink[PluginConfig]):
    """Keeps records by request id in a file, as a database does."""

    name = "table"

    def __init__(self, directory: Path) -> None:
        super().__init__(PluginConfig(), plugin_context(directory))
        self.connection = sqlite3.connect(
            directory / "sink.sqlite3", check_same_thread=False, isolation_level=None
        )
        self.connection.execute("PRAGMA synchronous = OFF")
        self.connection.execute(
            "CREATE TABLE IF NOT EXISTS records (id TEXT PRIMARY KEY, error TEXT)"
        )

    async def write(self, records: Sequence[UsageRecord]) -> None:
        rows = [(record.request_id, record.error_code) for record in records]
        await asyncio.to_thread(self._insert, rows)

    def _insert(self, rows: Sequence[tuple[str, str | None]]) -> None:
        self.connection.execute("BEGIN IMMEDIATE")
        self.connection.executemany("INSERT OR IGNORE INTO records VALUES (?, ?)", rows)
        self.connection.execute("COMMIT")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the comparison found; ``lost``, ``wrong`` and ``invented`` should be empty.

    ``wrong`` are requests that were answered and are kept as interrupted.
    """

    answered: int
    interrupted: int
    lost: tuple[str, ...]
    wrong: tuple[str, ...]
    invented: tuple[str, ...]


def judge(directory: Path) -> Verdict:
    """Compares ledger and sink."""
    said: dict[str, set[str]] = {ABOUT: set(), ASKED: set(), ANSWERED: set()}
    # A kill may meet the ledger's own write between two pages: the line that it cut off tells
    # nothing, and the next process goes on in the middle of it.
    for what, request_id in _LINE.findall((directory / "ledger").read_text("ascii")):
        said[what].add(request_id)
    with sqlite3.connect(directory / "sink.sqlite3") as connection:
        kept = dict(connection.execute("SELECT id, error FROM records").fetchall())
    connection.close()
    interrupted = {request_id for request_id, error in kept.items() if error == INTERRUPTED}
    return Verdict(
        len(said[ANSWERED]),
        len(interrupted),
        tuple(sorted((said[ASKED] | said[ANSWERED]) - kept.keys())),
        tuple(sorted(said[ANSWERED] & interrupted)),
        tuple(sorted(kept.keys() - said[ABOUT])),
    )


def run(directory: Path, kills: int, seed: int) -> Verdict:
    """Kills ``kills`` processes, lets one more finish, and judges."""
    chance = random.Random(seed)  # noqa: S311 - repeatable
    for _ in range(kills):
        reading, writing = os.pipe()
        child = _fork(partial(_work, directory, forever=True, begun=writing))
        if chance.random() < EARLY:
            time.sleep(chance.uniform(0.002, LONGEST_LIFE))
        else:
            os.read(reading, 1)
            time.sleep(chance.uniform(0.0, LONGEST_LIFE))
        os.close(reading)
        os.close(writing)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    child = _fork(lambda: _work(directory, forever=False))
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(f"the last process ended with status {status}")
    return judge(directory)


async def run_apart(directory: Path, kills: int, seed: int) -> Verdict:
    """As :func:`run`, in a process of its own, which has neither threads nor a loop. Raises
    ``RuntimeError`` with what it said when it fails."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", __name__, str(directory), str(kills), str(seed),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await process.communicate()
    if process.returncode:
        raise RuntimeError(err.decode()[-2000:])
    return msgspec.json.decode(out, type=Verdict)


def _fork(work: Callable[[], Any]) -> int:
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(work())
            os._exit(0)
        finally:
            os._exit(1)
    return child


async def _work(directory: Path, *, forever: bool, begun: int | None = None) -> None:
    sink = TableSink(directory)
    delivery = Delivery(
        directory,
        lambda _name: sink,
        _no_logger,
        lambda _name, _error: None,
        terms=SpoolTerms(segment_bytes=50_000),
        pace=Pace(batch=0.002),
    )
    await delivery.open(["table"])
    ledger = os.open(directory / "ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    flight: list[str] = []
    if begun is not None:
        os.write(begun, b"!")
    while forever:
        _ask(delivery, ledger, flight)
        if len(flight) > IN_FLIGHT:
            _answer(delivery, ledger, flight.pop(random.randrange(len(flight))))  # noqa: S311
        await asyncio.sleep(0)
    while flight:
        _answer(delivery, ledger, flight.pop())
    # What killed processes have left is not a matter of this one's end, and is waited for here.
    await until(lambda: not delivery.spool.orphans, seconds=DRAIN_SECONDS)
    await delivery.aclose(DRAIN_SECONDS)


def _ask(delivery: Delivery, ledger: int, flight: list[str]) -> None:
    request_id = new_id()
    os.write(ledger, f"{ABOUT} {request_id}\n".encode())
    opened: tuple[object, ...] = (
        request_id,
        time.time_ns(),
        "gateway",
        "chat",
        "acme",
        False,
        *[None] * 9,
        {},
    )
    delivery.announce(request_id, opened)
    os.write(ledger, f"{ASKED} {request_id}\n".encode())
    flight.append(request_id)


def _answer(delivery: Delivery, ledger: int, request_id: str) -> None:
    delivery.put(usage_record(request_id=request_id))
    os.write(ledger, f"{ANSWERED} {request_id}\n".encode())


def _no_logger(name: str) -> Any:
    raise AssertionError(f"nobody keeps payloads here: {name}")


def main() -> None:
    """Runs as the module says and prints the verdict."""
    directory, kills, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    sys.stdout.write(msgspec.json.encode(run(directory, kills, seed)).decode() + "\n")


if __name__ == "__main__":
    main()
