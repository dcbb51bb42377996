"""What holds up an event loop is found while it does."""

from __future__ import annotations

import time
from typing import Self

import pytest

from relay_gateway.observe import stall_watch
from relay_gateway.observe.loop_lag import LoopLag
from relay_gateway.observe.stall_watch import Stall, StallWatch
from relay_gateway.testing.instances import until


class Watched:
    """The loop of a test, watched closely."""

    def __init__(self) -> None:
        self.found: list[Stall] = []
        self.lag = LoopLag()
        self.watch = StallWatch(self.lag, self.found.append)

    def __enter__(self) -> Self:
        self.lag.start()
        self.watch.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.watch.stop()
        self.lag.stop()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stall_watch, "LATE_SECONDS", 0.05)
    monkeypatch.setattr(stall_watch, "LOOK_SECONDS", 0.005)


def hold_up(told: list[Stall], times: int = 1) -> None:
    """Blocks until so much was told, for at most five seconds."""
    end = time.monotonic() + 5
    while len(told) < times and time.monotonic() < end:
        time.sleep(0.01)


async def test_a_loop_that_is_held_up_is_found_with_what_it_does() -> None:
    with Watched() as watched:
        hold_up(watched.found)
    (stall,) = watched.found
    assert stall.seconds > 0.05
    assert stall.modules[0] == __name__
    assert "in hold_up" in stall.stack


async def test_one_time_is_told_once_and_the_next_again() -> None:
    with Watched() as watched:
        hold_up(watched.found)
        time.sleep(0.05)  # noqa: ASYNC251 - it goes on
        assert len(watched.found) == 1
        before = watched.lag.due
        await until(lambda: watched.lag.due != before)
        hold_up(watched.found, times=2)
    assert len(watched.found) == 2


async def test_a_loop_that_goes_on_is_not_held_up() -> None:
    with Watched() as watched:
        before = watched.lag.due
        await until(lambda: watched.lag.due != before)
    assert watched.found == []


async def test_a_mistake_in_telling_does_not_end_the_watching(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(stall: Stall) -> None:
        told.append(stall)
        raise RuntimeError("cannot tell")

    told: list[Stall] = []
    watched = Watched()
    watched.watch = StallWatch(watched.lag, fail)
    with watched:
        hold_up(told)
        before = watched.lag.due
        await until(lambda: watched.lag.due != before)
        assert "could not be told" in caplog.text
