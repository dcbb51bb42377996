"""Retries are a share of the requests of the last minute."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_gateway.pipeline.retries import FREE_RETRIES, Backoff, RetryBudget, is_patient
from relay_gateway.testing.clock import FakeClock


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def budget(clock: FakeClock) -> RetryBudget:
    return RetryBudget(clock)


def ask(budget: RetryBudget, clock: FakeClock, times: int) -> None:
    if clock.monotonic() >= budget.turns_at:
        budget.turn(clock.monotonic())
    budget.asked += times


def taken(budget: RetryBudget, ratio: float = 0.2) -> int:
    count = 0
    while count < 1000 and budget.take(ratio):
        count += 1
    return count


def test_a_gateway_with_few_requests_has_a_few_retries(budget: RetryBudget) -> None:
    assert taken(budget) == FREE_RETRIES


def test_more_requests_allow_more_retries(budget: RetryBudget, clock: FakeClock) -> None:
    ask(budget, clock, 100)
    assert taken(budget) == FREE_RETRIES + 20
    assert (budget.granted, budget.denied) == (23, 1)


def test_a_ratio_of_zero_allows_none_at_all(budget: RetryBudget, clock: FakeClock) -> None:
    ask(budget, clock, 100)
    assert taken(budget, 0.0) == 0


def test_what_is_older_than_a_minute_counts_no_more(budget: RetryBudget, clock: FakeClock) -> None:
    ask(budget, clock, 100)
    clock.advance(30)
    assert taken(budget) == FREE_RETRIES + 20
    clock.advance(25)
    assert taken(budget) == 0
    clock.advance(60)
    assert taken(budget) == FREE_RETRIES


@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.integers(0, 80), st.floats(0, 90)), min_size=1, max_size=60
    )
)
def test_f41_within_any_minute_there_are_no_more_retries_than_the_share(
    steps: list[tuple[int, int, float]],
) -> None:
    clock, log = FakeClock(), []
    budget = RetryBudget(clock)
    for asked, wanted, pause in steps:
        ask(budget, clock, asked)
        made = sum(budget.take(0.2) for _ in range(wanted))
        log.append((clock.monotonic(), asked, made))
        clock.advance(pause)
    for at in (at for at, _, made in log if made):
        window = [one for one in log if at - 49 < one[0] <= at]
        longer = [one for one in log if at - 61 < one[0] <= at]
        allowed = FREE_RETRIES + 0.2 * sum(one[1] for one in longer)
        assert sum(one[2] for one in window) <= allowed


async def test_pauses_double_up_to_a_second_and_are_partly_chance() -> None:
    pauses: list[float] = []

    async def note(seconds: float) -> None:
        pauses.append(seconds)

    backoff = Backoff(note)
    for repetition in range(8):
        await backoff.pause(repetition, None)
    await backoff.pause(0, 1.5)
    for repetition, seconds in enumerate(pauses[:-1]):
        longest = min(1.0, 0.1 * 2**repetition)
        assert longest / 2 <= seconds <= longest
    assert pauses[-1] == 1.5


def test_a_request_waits_two_seconds_for_a_host_and_no_longer() -> None:
    assert [is_patient(wish) for wish in (None, 0.0, 2.0, 2.1)] == [True, True, True, False]
