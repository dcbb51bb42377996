from __future__ import annotations

import asyncio
import time

import pytest

from relay_gateway.observe import loop_lag
from relay_gateway.observe.loop_lag import LoopLag
from relay_gateway.testing.instances import until


def observed(lag: LoopLag) -> tuple[int, float]:
    """How many times, and how late in all, in seconds."""
    one = next(iter(lag.series()))
    return sum(one.buckets), float(one.value)


async def test_what_blocks_the_loop_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_lag, "INTERVAL_SECONDS", 0.001)
    lag = LoopLag()
    lag.start()
    time.sleep(0.06)  # noqa: ASYNC251 - this is what is to be seen
    await until(lambda: observed(lag)[0] >= 1)
    lag.stop()
    one = next(iter(lag.series()))
    assert observed(lag)[1] >= 0.05
    assert sum(one.buckets[:5]) < sum(one.buckets)


async def test_it_goes_on_until_it_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop_lag, "INTERVAL_SECONDS", 0.001)
    lag = LoopLag()
    lag.start()
    await until(lambda: observed(lag)[0] >= 3)
    lag.stop()
    seen = observed(lag)[0]
    await asyncio.sleep(0.01)
    assert observed(lag)[0] == seen
    lag.stop()


async def test_tasks_that_have_not_ended_are_counted() -> None:
    lag = LoopLag()
    lag.start()
    _, before = lag.series()
    task = asyncio.create_task(asyncio.Event().wait())
    _, during = lag.series()
    task.cancel()
    lag.stop()
    assert before.value >= 1  # this one
    assert during.value == before.value + 1
