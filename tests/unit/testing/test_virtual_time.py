"""Time that passes only when there is nothing else to do."""

from __future__ import annotations

import asyncio
import time

import pytest

from relay_gateway.testing.virtual_time import VirtualTimeLoop


def test_an_hour_passes_at_once_and_timers_come_in_their_order() -> None:
    ended: list[float] = []

    async def wait(seconds: float) -> None:
        await asyncio.sleep(seconds)
        ended.append(asyncio.get_running_loop().time())

    async def several() -> None:
        await asyncio.gather(wait(3600.0), wait(1.0), wait(0.5))

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(several())
    assert ended == pytest.approx([0.5, 1.0, 3600.0])


def test_no_time_passes_while_a_thread_would_work() -> None:
    async def work() -> float:
        await asyncio.to_thread(time.sleep, 0)
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert runner.run(work()) == 0.0


def test_a_timeout_ends_what_takes_longer() -> None:
    async def give_up() -> float:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(60.0):
                await asyncio.Event().wait()
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert runner.run(give_up()) == pytest.approx(60.0)


def test_what_would_wait_for_ever_is_an_error() -> None:
    loop = VirtualTimeLoop()
    never = loop.create_future()
    with pytest.raises(RuntimeError, match="nothing will ever happen"):
        loop.run_until_complete(never)
    loop.close()
