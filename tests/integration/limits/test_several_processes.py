"""One table of limits and several processes, some of which end badly."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from relay_gateway.catalog.limit_rules import LimitRule, OnStateLoss
from relay_gateway.errors import StateBusyError
from relay_gateway.limits.choose import limiter_over
from relay_gateway.limits.guarded_store import BUSY_SECONDS
from relay_gateway.limits.limiter import Claim, Limiter
from relay_gateway.plugin import Hold, Strategy
from relay_gateway.testing.limit_workers import LimitWorker, claimed_by_all, shared_store

WORKERS = 4
TIMES = 500


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("limits")


@pytest.fixture(scope="module")
def workers(directory: Path) -> Iterator[list[LimitWorker]]:
    found = [LimitWorker.start(directory) for _ in range(WORKERS)]
    yield found
    for worker in found:
        worker.end()


@pytest.mark.parametrize(
    "strategy", ["token-bucket", "sliding-window", "fixed-window", "session-window", "gauge"]
)
def test_r32_four_processes_together_are_never_above_the_limit(
    workers: list[LimitWorker], strategy: Strategy
) -> None:
    limit = 300
    granted = claimed_by_all(workers, Hold(f"k-{strategy}", 1, limit, 864e5, strategy), TIMES)
    assert granted == limit


def test_t38_what_a_killed_process_held_is_free_again(directory: Path) -> None:
    hold = Hold("slots", 1, 5, 864e5, "gauge")
    doomed, other = LimitWorker.start(directory), LimitWorker.start(directory)
    doomed.ask(hold, 10)
    assert doomed.granted() == 5
    other.ask(hold, 1)
    assert other.granted() == 0
    doomed.kill()
    granted, deadline = 0, time.monotonic() + 10
    while not granted and time.monotonic() < deadline:
        other.ask(hold, 1)
        granted = other.granted()
    assert granted == 1
    other.end()


async def test_f65_a_process_that_is_stopped_holds_nobody_up(directory: Path) -> None:
    """It may be stopped at any moment, also while it has the table to itself."""
    busy, store = LimitWorker.start(directory), shared_store(directory)
    await store.aopen()
    hold = Hold("f65", 1, 10**9, 864e5, "token-bucket")
    longest = 0.0
    for number in range(20):
        busy.ask(hold, 2000)
        pid = busy.process.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        began = time.monotonic()
        with suppress(StateBusyError):
            store.reserve_now(f"r{number}", (hold,))
        longest = max(longest, time.monotonic() - began)
        os.kill(pid, signal.SIGCONT)
        assert busy.granted() == 2000
    busy.end()
    await store.aclose()
    assert longest < 1.0


@asynccontextmanager
async def shared_limiter(directory: Path) -> AsyncIterator[Limiter]:
    """Limits as a worker has them, over the common table."""
    store = shared_store(directory)
    await store.aopen()
    limiter = limiter_over(store)
    yield limiter
    await limiter.aclose()
    await store.aclose()


def one_of_five(loss: OnStateLoss = "local", *, shadow: bool = False) -> Claim:
    rule = LimitRule("five", "five", "requests", 5, 864e5, "fixed-window", shadow, loss)
    return Claim(rule, Hold(f"five-{loss}", 1, 5, 864e5, "fixed-window", shadow))


async def test_r32_callers_wait_for_a_stalled_worker_and_get_no_more_than_the_limit(
    tmp_path: Path,
) -> None:
    worker = LimitWorker.start(tmp_path)
    async with shared_limiter(tmp_path) as limiter:
        held = await limiter.reserve("held", [one_of_five()])
        worker.stall()
        with pytest.raises(StateBusyError):
            limiter.reserve_now("now", [one_of_five()])
        limiter.settle(held, [0])  # is made up for as soon as the table is to be had
        asked = [
            asyncio.create_task(limiter.reserve(f"r{number}", [one_of_five()]))
            for number in range(20)
        ]
        await asyncio.sleep(0)
        worker.go_on()
        granted = [one.refused < 0 for one in await asyncio.gather(*asked)]
        assert not limiter.store.is_lost
    worker.ask(one_of_five().hold, 20)
    assert sum(granted) + worker.granted() == 5
    worker.end()


async def test_r32_while_a_worker_is_stalled_nobody_counts_beside_the_table(
    tmp_path: Path,
) -> None:
    worker = LimitWorker.start(tmp_path)
    async with shared_limiter(tmp_path) as limiter:
        worker.stall()
        began = time.monotonic()
        claims = [
            one_of_five(), one_of_five("closed"), one_of_five("open"), one_of_five(shadow=True)
        ]  # fmt: skip
        answers = await asyncio.gather(
            *(limiter.reserve(f"r{number}", [one]) for number, one in enumerate(claims))
        )
        assert [(one.refused, one.lost) for one in answers] == [
            (0, True), (0, True), (-1, False), (-1, False)
        ]  # fmt: skip
        assert BUSY_SECONDS * 0.9 <= time.monotonic() - began < BUSY_SECONDS + 2.0
        for reservation in answers:
            limiter.settle(reservation, [1])
        # The kernel takes the lock from a process that is killed.
        worker.kill()
        taken = [await limiter.reserve(f"s{number}", [one_of_five()]) for number in range(9)]
        assert sum(one.refused < 0 for one in taken) == 5
