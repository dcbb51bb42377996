"""The store of one process."""

from __future__ import annotations

import random

import pytest

from relay_gateway.limits.choose import memory_store
from relay_gateway.limits.memory_store import MemoryStore
from relay_gateway.plugin import Hold, Strategy
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.conformance.stores import MakeStore, StateStoreConformance

WINDOWED: tuple[Strategy, ...] = (
    "token-bucket",
    "sliding-window",
    "fixed-window",
    "session-window",
)


class TestMemoryStore(StateStoreConformance):
    """What every state store promises."""

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def make_store(self, clock: FakeClock) -> MakeStore:
        return lambda: memory_store(clock)


def test_keys_that_come_once_do_not_stay(store: MemoryStore, clock: FakeClock) -> None:
    most = 0
    for number in range(150_000):
        hold = Hold(f"one-off {number}", 1, 10, 1.0, "fixed-window")
        store.reserve_now(f"r{number}", (hold,))
        store.settle_now(f"r{number}", (hold,), (1,))
        if number % 100 == 0:
            clock.advance(0.01)
            most = max(most, len(store))
    # A hundred a hundredth of a second, for two seconds, and what is yet to be looked at.
    assert most < 60_000


def test_keys_that_came_once_go_while_another_one_is_used(
    store: MemoryStore, clock: FakeClock
) -> None:
    for number in range(20_000):
        hold = Hold(f"one-off {number}", 1, 10, 1.0, "fixed-window")
        store.reserve_now(f"r{number}", (hold,))
    assert len(store) == 20_000
    steady = Hold("steady", 1, 1_000_000, 60.0, "token-bucket")
    for number in range(100):
        clock.advance(0.1)
        store.reserve_now(f"s{number}", (steady,))
    assert len(store) == 1


@pytest.mark.parametrize("strategy", [*WINDOWED, "gauge"])
def test_t38_ten_thousand_cancels_leave_nothing_behind(
    store: MemoryStore, strategy: Strategy
) -> None:
    dice = random.Random(7)
    claims = [
        (f"r{number}", Hold("k", dice.randrange(1, 100), 10_000_000, 3600.0, strategy))
        for number in range(10_000)
    ]
    for request_id, hold in claims:
        assert store.reserve_now(request_id, (hold,)).refused < 0
    dice.shuffle(claims)
    for request_id, hold in claims:
        store.settle_now(request_id, (hold,), (0,))
    grant = store.reserve_now("last", (Hold("k", 10_000_000, 10_000_000, 3600.0, strategy),))
    assert grant.refused < 0


def test_a_lease_that_has_ended_is_not_renewed(store: MemoryStore, clock: FakeClock) -> None:
    whole = Hold("g", 2, 2, 60.0, "gauge")
    store.reserve_now("a", (whole,))
    clock.advance(59.0)
    store.reserve_now("a", (whole,))  # in time
    clock.advance(59.0)
    assert store.reserve_now("b", (whole,)).refused == 0
    clock.advance(2.0)
    store.reserve_now("a", (whole,))
    assert store.reserve_now("b", (whole,)).refused < 0


@pytest.mark.parametrize("strategy", WINDOWED)
@pytest.mark.parametrize("jump", [86_400.0, -86_400.0])
def test_f60_a_jump_of_the_wall_clock_changes_nothing(
    store: MemoryStore, clock: FakeClock, strategy: Strategy, jump: float
) -> None:
    hold = Hold("k", 10, 10, 60.0, strategy)
    assert store.reserve_now("a", (hold,)).refused < 0
    clock.set_time(clock.time() + jump)
    refused = store.reserve_now("b", (hold,))
    assert refused.refused == 0
    assert 0 < refused.retry_after <= 66
    clock.advance(66.0)
    assert store.reserve_now("c", (hold,)).refused < 0


def test_f65_a_process_that_was_stopped_finds_its_windows_over(
    store: MemoryStore, clock: FakeClock
) -> None:
    hold = Hold("k", 10, 10, 20.0, "session-window")
    store.reserve_now("a", (hold,))
    clock.advance(30.0)
    assert store.reserve_now("b", (hold,)).refused < 0


def test_what_time_has_paid_back_is_not_given_back_again(
    store: MemoryStore, clock: FakeClock
) -> None:
    """A bucket that has drained a claim holds nothing of it that could be returned."""
    hold = Hold("k", 10, 10, 10.0, "token-bucket")
    store.reserve_now("early", (hold,))
    clock.advance(9.9)
    late = Hold("k", 9, 10, 10.0, "token-bucket")
    assert store.reserve_now("late", (late,)).refused < 0
    store.settle_now("early", (hold,), (0,))
    assert store.reserve_now("more", (Hold("k", 2, 10, 10.0, "token-bucket"),)).refused == 0


def test_the_levels_of_a_bucket_are_few_and_stay_right(store: MemoryStore) -> None:
    """More rising claims than a bucket remembers levels for: the oldest are given back less, and
    nothing more than was claimed."""
    claims = [(f"r{n}", Hold("k", 2**n, 2**30, 1e9, "token-bucket")) for n in range(20)]
    for request_id, hold in claims:
        store.reserve_now(request_id, (hold,))
    for request_id, hold in reversed(claims[10:]):
        store.settle_now(request_id, (hold,), (0,))
    grant = store.reserve_now("probe", (Hold("k", 1, 2**30, 1e9, "token-bucket"),))
    left = 2**30 - 1 - (2**10 - 1)
    forgotten = 20 - 7
    assert left - sum(2**n for n in range(10, forgotten)) <= grant.remaining[0] <= left


@pytest.mark.parametrize("strategy", WINDOWED)
def test_what_was_used_beyond_the_claim_counts_against_those_who_follow(
    store: MemoryStore, strategy: Strategy
) -> None:
    hold = Hold("k", 1, 100, 3600.0, strategy)
    store.reserve_now("a", (hold,))
    store.settle_now("a", (hold,), (150,))
    refused = store.reserve_now("b", (hold,))
    assert (refused.refused, refused.remaining) == (0, (0,))
