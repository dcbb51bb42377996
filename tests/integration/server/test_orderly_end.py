"""How a gateway ends: what is open is finished or broken off truthfully, and all is recorded."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import pytest

from relay_gateway.testing.held import Held

Serving = Callable[..., Awaitable[Held]]
ONE_AND_SEVERAL = pytest.mark.parametrize("workers", [1, 2])


@ONE_AND_SEVERAL
async def test_f22_every_open_stream_finishes_and_is_recorded(
    serving: Serving, workers: int
) -> None:
    held = await serving(workers)
    calls = await held.streams(200)
    held.gateway.send_signal(signal.SIGTERM)
    await until_refused(held)
    held.upstream.finish.set()
    rests = await asyncio.gather(*(call.rest() for call in calls))
    assert all(rest.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n") for rest in rests)
    assert await held.gateway.wait(seconds=5) == 0
    records = await held.records()
    assert Counter(record["outcome"] for record in records) == {"ok": 200}
    assert all(record["tokens"]["output"] == 2 for record in records)
    assert len({record["instance"] for record in records}) == workers


@ONE_AND_SEVERAL
async def test_f23_what_is_open_at_the_deadline_is_told_so_and_recorded_as_interrupted(
    serving: Serving, workers: int
) -> None:
    held = await serving(workers, shutdown_seconds="0.5")
    streams = await held.streams(10)
    waiting = await held.ask(stream=False)
    await held.scenario.upstream.wait_for_requests(11)
    began = time.monotonic()
    held.gateway.send_signal(signal.SIGTERM)
    for rest in await asyncio.gather(*(stream.rest() for stream in streams)):
        # A cut answer has no last chunk, so nobody can take it for a complete one.
        assert not rest.endswith(b"0\r\n\r\n")
        event = rest.rpartition(b"data: ")[2].partition(b"\n\n")[0]
        assert json.loads(event)["error"]["code"] == "interrupted"
    status, body = await waiting.answer()
    assert (status, json.loads(body)["error"]["code"]) == (503, "interrupted")
    assert await held.gateway.wait(seconds=5) == 0
    assert time.monotonic() - began < 1.5
    ends = Counter((one["outcome"], one["errorCode"]) for one in await held.records())
    assert ends == {("aborted", "interrupted"): 11}


@ONE_AND_SEVERAL
async def test_f67_a_second_signal_ends_at_once_and_loses_no_record(
    serving: Serving, workers: int
) -> None:
    held = await serving(workers)
    streams = await held.streams(10)
    held.gateway.send_signal(signal.SIGTERM)
    await until_refused(held)
    began = time.monotonic()
    held.gateway.send_signal(signal.SIGINT)
    assert await held.gateway.wait(seconds=5) == 0
    assert time.monotonic() - began < 2
    rests = await asyncio.gather(*(stream.rest() for stream in streams))
    assert all(b'"interrupted"' in rest for rest in rests)
    assert Counter(record["errorCode"] for record in await held.records()) == {"interrupted": 10}


@ONE_AND_SEVERAL
async def test_r17_500_idle_connections_do_not_hold_up_the_end(
    serving: Serving, workers: int
) -> None:
    held = await serving(workers)
    calls = [await held.connect() for _ in range(500)]
    for call in calls:
        await call.ask("GET", "/healthz", held.key)
    assert {(await call.answer())[0] for call in calls} == {200}
    began = time.monotonic()
    assert await held.gateway.stop(seconds=5) == 0
    assert time.monotonic() - began < 2
    assert {await call.rest() for call in calls} == {b""}


@ONE_AND_SEVERAL
async def test_f64_r17_sighup_ends_nothing_and_an_idle_gateway_ends_within_a_second(
    serving: Serving, workers: int
) -> None:
    held = await serving(workers)
    for process in (held.gateway.pid, *held.gateway.children()):
        os.kill(process, signal.SIGHUP)
    await held.until_every_worker_answers(200)
    began = time.monotonic()
    assert await held.gateway.stop(seconds=5) == 0
    assert time.monotonic() - began < 1
    assert "nothing is reloaded" not in held.gateway.stderr
    assert "ended unexpectedly" not in held.gateway.stderr


@ONE_AND_SEVERAL
async def test_while_it_drains_it_is_not_ready_and_still_answers_operators(
    serving: Serving, workers: int
) -> None:
    held = await serving(workers)
    (stream,) = await held.streams(1)
    assert (await held.scenario.admin.get("/readyz")).status_code == 200
    held.gateway.send_signal(signal.SIGTERM)
    await until_refused(held)
    answer = await held.scenario.admin.get("/readyz")
    assert (answer.status_code, answer.json()["draining"]) == (503, True)
    held.upstream.finish.set()
    assert (await stream.rest()).endswith(b"0\r\n\r\n")
    assert await held.gateway.wait(seconds=5) == 0


async def test_a_signal_that_reaches_every_process_at_once_ends_in_order_too(
    serving: Serving,
) -> None:
    """So does Ctrl-C on a terminal, and a service manager."""
    held = await serving(2)
    (stream,) = await held.streams(1)
    for process in (*held.gateway.children(), held.gateway.pid):
        os.kill(process, signal.SIGINT)
    await until_refused(held)
    held.upstream.finish.set()
    assert (await stream.rest()).endswith(b"0\r\n\r\n")
    assert await held.gateway.wait(seconds=5) == 0
    assert [record["outcome"] for record in await held.records()] == ["ok"]


async def until_refused(held: Held) -> None:
    """Waits until the gateway accepts no more connections."""
    async with asyncio.timeout(5):
        while True:
            try:
                call = await held.connect()
            except (ConnectionRefusedError, ConnectionResetError):
                return
            call.writer.close()
            await asyncio.sleep(0.01)
