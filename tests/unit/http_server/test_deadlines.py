from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import pytest

from relay_gateway.http.deadlines import (
    NEVER,
    STEP_SECONDS,
    DeadlineSweep,
    WriteProgress,
    body_deadline,
)
from relay_gateway.http.limits import ServerLimits
from relay_gateway.http.portions import AT_ONCE


class FakeTimer:
    def __init__(self, when: float, callback: Callable[[], None]) -> None:
        self.when = when
        self.callback = callback
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class FakeLoop:
    """A loop whose time passes when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0
        self.all: list[FakeTimer] = []
        self.soon: list[tuple[Callable[..., None], tuple[Any, ...]]] = []

    def time(self) -> float:
        return self.now

    def call_at(self, when: float, callback: Callable[[], None]) -> FakeTimer:
        self.all.append(FakeTimer(when, callback))
        return self.all[-1]

    def call_soon(self, callback: Callable[..., None], *args: Any) -> None:
        self.soon.append((callback, args))

    @property
    def timers(self) -> list[FakeTimer]:
        """Those that are still to come, the first first."""
        self.all = [one for one in self.all if not one.cancelled]
        return sorted(self.all, key=lambda one: one.when)

    def turn(self) -> None:
        """Runs what was due before it began."""
        due, self.soon = self.soon, []
        for callback, args in due:
            callback(*args)

    def advance_to_timer(self, late: float = 0.0) -> None:
        first = self.timers[0]
        self.all.remove(first)
        self.now = max(self.now, first.when + late)
        first.callback()

    def advance(self, until: float) -> None:
        """Runs every timer whose time comes."""
        while self.timers and self.timers[0].when <= until:
            self.advance_to_timer()
        self.now = until

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
    loop.advance(101.0)  # sooner than the first look
    assert (soon.told, later.told) == ([101.0], [])
    loop.advance(110.0)
    assert (soon.told, later.told, never.told) == ([101.0], [102.5], [])


def test_r19_each_is_told_at_its_own_time_and_not_with_all_others_of_a_second() -> None:
    loop, sweep = FakeLoop(), DeadlineSweep(1.0)
    many = [Waiting(105.0 + number * 0.02) for number in range(200)]
    for each in many:
        sweep.add(each, loop.as_loop())
    loop.advance(112.0)
    late = [each.told[0] - (105.0 + number * 0.02) for number, each in enumerate(many)]
    assert max(late) <= STEP_SECONDS
    assert min(late) >= 0


def test_r19_those_due_within_a_step_are_told_together() -> None:
    loop, sweep = FakeLoop(), DeadlineSweep(1.0)
    many = [Waiting(105.0 + number * STEP_SECONDS / 5) for number in range(5)]
    for each in many:
        sweep.add(each, loop.as_loop())
    loop.advance(112.0)
    assert len({each.told[0] for each in many}) == 2


def test_r19_one_that_is_given_a_little_more_time_is_told_when_that_is_over() -> None:
    class Patient(Waiting):
        def on_deadline(self, now: float) -> None:
            super().on_deadline(now)
            self.deadline = now + 0.05 if len(self.told) < 3 else NEVER

    loop, sweep = FakeLoop(), DeadlineSweep(1.0)
    patient = Patient(105.0)
    sweep.add(patient, loop.as_loop())
    sweep.add(Waiting(105.5), loop.as_loop())
    loop.advance(110.0)
    assert patient.told == pytest.approx([105.0, 105.05, 105.1])


def test_one_that_was_heard_of_meanwhile_is_not_told() -> None:
    loop, sweep = FakeLoop(), DeadlineSweep(1.0)
    waiting, gone = Waiting(105.5), Waiting(105.5)
    sweep.add(waiting, loop.as_loop())
    sweep.add(gone, loop.as_loop())
    loop.advance(105.2)
    waiting.deadline = 107.25
    sweep.discard(gone)
    loop.advance(107.0)
    assert (waiting.told, gone.told) == ([], [])
    loop.advance(108.0)
    assert waiting.told == [107.25]


def test_timers_stop_with_the_last_connection() -> None:
    loop, sweep = FakeLoop(), DeadlineSweep(1.0)
    first, second = Waiting(NEVER), Waiting(101.5)
    sweep.add(first, loop.as_loop())
    sweep.add(second, loop.as_loop())
    loop.advance(101.0)
    assert len(loop.timers) == 2  # for the next look, and for the second
    sweep.discard(first)
    assert len(loop.timers) == 2
    sweep.discard(second)
    assert loop.timers == []
    assert len(sweep) == 0
    sweep.add(first, loop.as_loop())
    assert len(loop.timers) == 1


def test_f65_nobody_is_judged_right_after_the_process_was_stopped() -> None:
    loop, sweep = FakeLoop(), DeadlineSweep(1.0)
    waiting = Waiting(110.0)
    sweep.add(waiting, loop.as_loop())
    loop.advance_to_timer(late=30.0)
    assert waiting.told == []
    loop.advance_to_timer()
    assert waiting.told == [132.0]


def test_f65_nor_those_who_were_to_be_told_while_it_was_stopped() -> None:
    loop, sweep = FakeLoop(), DeadlineSweep(1.0)
    waiting = Waiting(101.5)
    sweep.add(waiting, loop.as_loop())
    loop.advance(101.0)
    assert loop.timers[0].when == 101.5
    loop.advance_to_timer(late=30.0)
    loop.advance_to_timer()  # the look that was due at 102
    assert waiting.told == []
    loop.advance_to_timer()
    assert waiting.told == [132.5]


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


def test_r19_those_who_come_next_do_not_take_the_place_of_those_still_to_be_told() -> None:
    loop, sweep = FakeLoop(), DeadlineSweep(1.0)
    many = [Waiting(105.25) for _ in range(3 * AT_ONCE)]
    next_one = Waiting(105.26)
    for each in (*many, next_one):
        sweep.add(each, loop.as_loop())
    loop.advance(105.27)
    for _ in range(3):
        loop.turn()
    assert all(each.told for each in (*many, next_one))


class Broken(Waiting):
    def on_deadline(self, now: float) -> None:
        super().on_deadline(now)
        raise RuntimeError


def test_after_one_that_fails_the_next_is_told_in_time() -> None:
    loop, sweep = FakeLoop(), DeadlineSweep(1.0)
    broken, next_one = Broken(105.25), Waiting(105.5)
    sweep.add(broken, loop.as_loop())
    sweep.add(next_one, loop.as_loop())
    with pytest.raises(RuntimeError):
        loop.advance(105.4)
    loop.advance(106.5)
    assert (broken.told, next_one.told) == ([105.25], [105.5])


def test_one_that_fails_does_not_keep_the_others_from_being_told() -> None:
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
