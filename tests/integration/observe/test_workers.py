"""Metrics of several workers: one sum for all, through deaths and silences."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay_gateway.testing.held import Held, running_held
from relay_gateway.testing.scrape import Scrape

REQUESTS = "relay_requests_total"


@pytest.fixture
async def held(tmp_path: Path) -> AsyncIterator[Held]:
    """A gateway with two workers."""
    async with running_held(tmp_path, "openai", {"RELAY_WORKERS": "2"}) as held:
        yield held


async def refused(held: Held, count: int) -> None:
    """So many requests that end at once, each on a connection of its own."""
    for _ in range(count):
        call = await held.connect()
        await call.ask("POST", "/v1/chat/completions", held.key, {"model": "nobody"})
        assert (await call.answer())[0] == 404


async def scraped_until(held: Held, total: float, name: str = REQUESTS) -> Scrape:
    """A scrape in which so much is counted."""
    async with asyncio.timeout(10):
        while True:
            scrape = await Scrape.of(held.scenario.admin)
            if scrape.total(name) >= total:
                return scrape
            await asyncio.sleep(0.02)


async def until_both_answer(held: Held) -> Scrape:
    return await scraped_until(held, 3, "relay_process_up")


async def test_f62_a_sum_over_workers_does_not_fall_when_one_dies(held: Held) -> None:
    await refused(held, 30)
    scrape = await scraped_until(held, 30)
    processes = {("control",), ("worker-1",), ("worker-2",)}
    assert set(scrape.by("relay_snapshot_revision", "process")) == processes
    assert (scrape.total(REQUESTS), scrape.total("relay_process_up")) == (30, 3)
    started = scrape.by("process_start_time_seconds", "process")

    os.kill(held.gateway.children()[0], signal.SIGKILL)
    totals = [(await Scrape.of(held.scenario.admin)).total(REQUESTS) for _ in range(2)]
    scrape = await until_both_answer(held)
    assert [*totals, scrape.total(REQUESTS)] == [30, 30, 30]
    later = scrape.by("process_start_time_seconds", "process")
    assert later["worker-1",] > started["worker-1",]
    assert later["worker-2",] == started["worker-2",]

    await refused(held, 30)
    scrape = await scraped_until(held, 60)
    assert scrape.total(REQUESTS) == 60
    assert scrape.total("relay_request_duration_seconds_count") == 60


async def test_a_worker_that_does_not_answer_is_counted_and_holds_up_nobody_for_long(
    held: Held,
) -> None:
    await refused(held, 20)
    await scraped_until(held, 20)
    worker = held.gateway.children()[1]
    os.kill(worker, signal.SIGSTOP)
    try:
        began = time.monotonic()
        scrape = await Scrape.of(held.scenario.admin)
        assert 0.9 < time.monotonic() - began < 10
    finally:
        os.kill(worker, signal.SIGCONT)
    assert scrape.total(REQUESTS) == 20
    silent = {("control",): 0, ("worker-1",): 0, ("worker-2",): 1}
    assert scrape.by("relay_process_unanswered_total", "process") == silent
    assert scrape.total("relay_process_up", process="worker-2") == 0
    assert scrape.by("relay_ready", "process").keys() == {("control",), ("worker-1",)}
    scrape = await until_both_answer(held)
    assert scrape.total("relay_process_unanswered_total") >= 1


async def test_requests_are_in_flight_until_their_answer_is_complete(held: Held) -> None:
    streams = await held.streams(4)
    hanging = [await held.ask(stream=False) for _ in range(2)]
    scrape = await scraped_until(held, 6, "relay_requests_in_flight")
    assert scrape.total("relay_requests_in_flight") == 6
    assert scrape.total("relay_connections") >= 6
    held.upstream.finish.set()
    for stream in streams:
        await stream.reader.readuntil(b"0\r\n\r\n")
    for call in hanging:
        call.writer.close()
    scrape = await scraped_until(held, 6)
    assert scrape.total("relay_requests_in_flight") == 0
    outcomes = {("ok",): 4, ("cancelled",): 2}
    assert scrape.by(REQUESTS, "outcome") == outcomes


async def test_a_replaced_control_process_has_the_counts_of_the_workers(held: Held) -> None:
    await refused(held, 10)
    await scraped_until(held, 10)
    os.kill(held.gateway.children()[2], signal.SIGKILL)
    async with held.gateway.control() as admin:
        # It waits in the supervisor's socket until there is somebody.
        assert (await Scrape.of(admin)).total(REQUESTS) == 10
