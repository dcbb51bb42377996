"""Host keys are benched with an end, and pools are tried in the order of their policy."""

from __future__ import annotations

from collections import Counter

import pytest

from relay_gateway.catalog.snapshot import HostKey, Policy
from relay_gateway.pipeline.keypool import KeyPools
from relay_gateway.plugin import RowBinding, SecretRef
from relay_gateway.testing.clock import FakeClock


def key(name: str, *, priority: int = 0, weight: int = 1) -> HostKey:
    binding = RowBinding("host key", name, "spec.valueFrom", 1)
    return HostKey(
        name,
        name,
        "h",
        Policy("p", "p"),
        "table",
        SecretRef(kind="table"),
        binding,
        weight,
        priority,
    )


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def pools(clock: FakeClock) -> KeyPools:
    return KeyPools(clock)


def names(pools: KeyPools, keys: list[HostKey], strategy: str) -> list[str]:
    return [key.id for key in pools.order(keys, strategy)]


def test_prioritized_takes_the_lowest_number_first(pools: KeyPools) -> None:
    keys = [key("b", priority=2), key("a", priority=1), key("c", priority=3)]
    assert names(pools, keys, "prioritized") == ["a", "b", "c"]


def test_round_robin_begins_with_each_key_in_turn(pools: KeyPools) -> None:
    keys = [key("a"), key("b"), key("c")]
    firsts = Counter(names(pools, keys, "round-robin")[0] for _ in range(30))
    assert firsts == {"a": 10, "b": 10, "c": 10}


def test_weighted_draws_by_weight_and_leaves_weight_zero_for_last(pools: KeyPools) -> None:
    keys = [key("a", weight=9), key("b", weight=1), key("c", weight=0)]
    orders = [names(pools, keys, "weighted") for _ in range(2000)]
    firsts = Counter(order[0] for order in orders)
    assert 1700 < firsts["a"] < 1900
    assert {order[2] for order in orders} == {"c"}


def test_least_recently_used_and_least_in_flight_follow_use(
    pools: KeyPools, clock: FakeClock
) -> None:
    keys = [key("a"), key("b")]
    pools.draw("a", clock.monotonic())
    clock.advance(1)
    drawn = pools.draw("b", clock.monotonic())
    assert names(pools, keys, "least-recently-used") == ["a", "b"]
    drawn.in_flight -= 1
    assert names(pools, keys, "least-in-flight") == ["b", "a"]


@pytest.mark.parametrize(
    "strategy",
    ["prioritized", "round-robin", "weighted", "least-recently-used", "least-in-flight"],
)
def test_a_benched_key_is_left_out_by_every_strategy(pools: KeyPools, strategy: str) -> None:
    pools.bench("a", "throttled", 30)
    assert names(pools, [key("a"), key("b"), key("c")], strategy).count("a") == 0


def test_f42_every_bench_ends_by_itself(pools: KeyPools, clock: FakeClock) -> None:
    pools.bench("a", "throttled", 1e9)
    clock.advance(661)
    assert names(pools, [key("a")], "prioritized") == ["a"]


def test_f39_a_bench_is_never_shortened_by_a_later_one(pools: KeyPools, clock: FakeClock) -> None:
    pools.bench("a", "throttled", 60)
    pools.bench("a", "throttled", 1)
    clock.advance(59)
    assert names(pools, [key("a")], "prioritized") == []


def test_strikes_without_a_given_time_double_it_up_to_a_minute(
    pools: KeyPools, clock: FakeClock
) -> None:
    waits = []
    for _ in range(9):
        pools.bench("a", "failed")
        waits.append(pools.shortest_wait([key("a")]))
        clock.advance(100)
    assert waits[0] <= 1.1
    assert 4 <= waits[2] <= 4.4
    assert 60 <= waits[8] <= 66


def test_a_reset_cleans_the_slate(pools: KeyPools) -> None:
    pools.bench("a", "failed")
    assert pools.describe("a")["reason"] == "failed"
    pools.reset("a")
    assert pools.describe("a") == {
        "state": "available",
        "reason": None,
        "secondsLeft": None,
        "inFlight": 0,
        "models": [],
    }
