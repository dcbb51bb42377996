from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytest

from relay_gateway.http.deadlines import NEVER, DeadlineSweep, WriteProgress, body_deadline
from relay_gateway.http.limits import ServerLimits
from relay_gateway.http.portions import AT_ONCE


class FakeTimer:
    def __init__(self) -> None:
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeLoop:
    """A loop whose time passes when the test says so, with one timer."""

    def __init__(self) -> None:
        self.now = 100.0
        self.due: tuple[float, Callable[..., None], tuple[Any, ...]] | None = None
        self.timer = FakeTimer()
        self.soon: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[..., None], *args: Any) -> FakeTimer:
        self.due = (self.now + delay, callback, args)
        self.timer = FakeTimer()
        return self.timer

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        self.soon.append((callback, args))

    def turn(self) -> None:
        """Runs what was due before it began."""
        due, self.soon = self.soon, []
        for callback, args in due:
            callback(*args)

    def advance_to_timer(self, late: float = 0.0) -> None:
        assert self.due is not None
        when, callback, args = self.due
        self.now = when + late
        callback(*args)

    def as_loop(self) -> asyncio.AbstractEventLoop:
        return cast("asyncio.AbstractEventLoop", self)


class Waiting:
    def __init__(self, deadline: float) -> None:
        self.deadline = deadline
        self.told: list[float] = []

    def on_deadline(self, now: float) -> None:
        self.told.append(now)
        self.deadline = NEVER


def test_sweep_tells_those_whose_time_has_come_and_only_once() -> None:
    loop, sweep = FakeLoop(), DeadlineSweep(1.0)
    soon, later, never = Waiting(100.5), Waiting(102.5), Waiting(NEVER)
    for each in (soon, later, never):
        sweep.add(each, loop.as_loop())
    loop.advance_to_timer()
    assert (soon.told, later.told) == ([101.0], [])
    loop.advance_to_timer()
    loop.advance_to_timer()
    assert (soon.told, later.told, never.told) == ([101.0], [103.0], [])


def test_timer_stops_with_the_last_connection() -> None:
    loop, sweep = FakeLoop(), DeadlineSweep(1.0)
    first, second = Waiting(NEVER), Waiting(NEVER)
    sweep.add(first, loop.as_loop())
    sweep.add(second, loop.as_loop())
    sweep.discard(first)
    cancelled = [loop.timer.cancelled]
    sweep.discard(second)
    cancelled.append(loop.timer.cancelled)
    assert cancelled == [False, True]
    assert len(sweep) == 0


def test_f65_nobody_is_judged_right_after_the_process_was_stopped() -> None:
    loop, sweep = FakeLoop(), DeadlineSweep(1.0)
    waiting = Waiting(110.0)
    sweep.add(waiting, loop.as_loop())
    loop.advance_to_timer(late=30.0)
    assert waiting.told == []
    loop.advance_to_timer()
    assert waiting.told == [132.0]


def test_r19_those_whose_time_has_come_together_are_told_in_portions() -> None:
    loop, sweep = FakeLoop(), DeadlineSweep(1.0)
    many = [Waiting(100.5) for _ in range(3 * AT_ONCE)]
    for each in many:
        sweep.add(each, loop.as_loop())
    loop.advance_to_timer()
    told = [each for each in many if each.told]
    assert len(told) == AT_ONCE
    waiting = [each for each in many if not each.told]
    gone, heard_of = waiting[0], waiting[1]
    sweep.discard(gone)
    heard_of.deadline = 105.0
    loop.turn()
    loop.turn()
    assert [each.told for each in waiting[2:]] == [[101.0]] * (2 * AT_ONCE - 2)
    assert (gone.told, heard_of.told, loop.soon) == ([], [], [])


def test_one_that_fails_does_not_keep_the_others_from_being_told() -> None:
    class Broken(Waiting):
        def on_deadline(self, now: float) -> None:
            super().on_deadline(now)
            raise RuntimeError

    loop, sweep = FakeLoop(), DeadlineSweep(1.0)
    many = [Broken(100.5), *(Waiting(100.5) for _ in range(2 * AT_ONCE))]
    for each in many:
        sweep.add(each, loop.as_loop())
    for step in (loop.advance_to_timer, loop.turn, loop.turn) * 2:
        with suppress(RuntimeError):
            step()
    assert all(each.told for each in many)


@pytest.mark.parametrize(
    ("received", "expected", "seconds"),
    [
        (0, 1000, 10.0),
        (10 * 1024, 1_000_000, 20.0),
        (33_000_000, 33_554_432, 120.0),
        (33_000_000, 33_554_433, 240.0),
        (33_554_433, None, 240.0),
        (0, None, 10.0),
    ],
)
def test_t27_body_deadline_follows_rate_and_size(
    received: int, expected: int | None, seconds: float
) -> None:
    assert body_deadline(ServerLimits(), 5.0, received, expected) == 5.0 + seconds


def test_t27_progress_is_any_byte_taken() -> None:
    progress = WriteProgress()
    progress.start(10.0, 500)
    assert progress.stalled_for(40.0, 500) == 30.0
    assert progress.stalled_for(60.0, 501) == 0.0
    assert progress.stalled_for(70.0, 501) == 10.0
