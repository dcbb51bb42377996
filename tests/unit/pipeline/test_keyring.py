"""Pools give the key that their strategy wants, at the same cost however many keys there are."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from relay_gateway.catalog.snapshot import HostKey, Policy
from relay_gateway.pipeline.keypool import MAX_MODELS, TRIAL_SECONDS, Cause, KeyPools, KeyState
from relay_gateway.plugin import RowBinding, SecretRef
from relay_gateway.testing.clock import FakeClock

STRATEGIES = (
    "prioritized",
    "round-robin",
    "weighted",
    "least-recently-used",
    "least-in-flight",
)


def key(name: str, *, priority: int = 0, weight: int = 1) -> HostKey:
    binding = RowBinding("host key", name, "spec.valueFrom", 1)
    stored = SecretRef(kind="table")
    return HostKey(name, name, "h", Policy("p", "p"), "table", stored, binding, weight, priority)


KEYS = tuple(key(f"k{number:02}", priority=number // 10) for number in range(50))


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def pools(clock: FakeClock) -> KeyPools:
    return KeyPools(clock)


def first(pools: KeyPools, strategy: str, model_id: str = "m") -> str:
    return next(iter(pools.order(KEYS, strategy, model_id))).id


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_key_is_tried_once_and_none_that_is_benched(pools: KeyPools, strategy: str) -> None:
    for one in KEYS[::7]:
        pools.bench(one.id, "throttled by the upstream", 60)
    tried = Counter(one.id for one in pools.order(KEYS, strategy, "m"))
    assert tried == Counter(one.id for one in KEYS if one not in KEYS[::7])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_key_is_back_when_its_bench_ends(
    pools: KeyPools, clock: FakeClock, strategy: str
) -> None:
    for one in KEYS:
        pools.bench(one.id, "throttled by the upstream", 60 if one is KEYS[3] else 600)
    assert list(pools.order(KEYS, strategy, "m")) == []
    clock.advance(66)
    assert list(pools.order(KEYS, strategy, "m")) == [KEYS[3]]


class _CountingState(KeyState):
    """Counts how often it is looked at for whether it may be drawn."""

    looks = 0

    @property
    def ready_at(self) -> float:
        type(self).looks += 1
        return super().ready_at


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_pick_does_not_look_at_every_key(
    pools: KeyPools, clock: FakeClock, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay_gateway.pipeline.keypool.KeyState", _CountingState)
    pools.draw(first(pools, strategy), clock.monotonic())
    _CountingState.looks = 0
    for _ in range(100):
        pools.draw(first(pools, strategy), clock.monotonic())
        clock.advance(0.01)
    assert _CountingState.looks == 0


def test_a_key_can_be_left_out_for_one_model_alone(pools: KeyPools, clock: FakeClock) -> None:
    pools.bench_model("k00", "m", "throttled by the upstream", 20)
    assert first(pools, "prioritized", "m") == "k01"
    assert first(pools, "prioritized", "other") == "k00"
    assert "'modelId': 'm'" in str(pools.describe("k00")["models"])
    clock.advance(23)
    assert first(pools, "prioritized", "m") == "k00"
    assert pools.describe("k00")["models"] == []


def test_f42_a_bench_for_a_model_is_not_shortened_and_ends(
    pools: KeyPools, clock: FakeClock
) -> None:
    pools.bench_model("k00", "m", "throttled by the upstream", 1e9)
    pools.bench_model("k00", "m", "throttled by the upstream", 1)
    clock.advance(599)
    assert not pools.serves("k00", "m")
    clock.advance(62)
    assert pools.serves("k00", "m")


def test_a_key_that_is_left_out_for_very_many_models_is_left_out_for_all(
    pools: KeyPools,
) -> None:
    for number in range(MAX_MODELS + 1):
        pools.bench_model("k00", f"m{number}", "throttled by the upstream", 60)
    assert not pools.serves("k00", "another")


def test_a_key_that_serves_a_model_again_has_a_clean_slate_for_it(pools: KeyPools) -> None:
    pools.bench_model("k00", "m", "throttled by the upstream", 20)
    pools.bench_model("k00", "other", "throttled by the upstream", 20)
    pools.recovered(pools.state("k00"), "m")
    assert (pools.serves("k00", "m"), pools.serves("k00", "other")) == (True, False)


def test_f40_a_refused_key_is_tried_again_by_one_request_only(
    pools: KeyPools, clock: FakeClock
) -> None:
    keys = KEYS[:1]
    pools.bench("k00", "refused by the upstream", 60, Cause.REFUSED)
    clock.advance(66)
    (drawn,) = pools.order(keys, "prioritized", "m")
    state = pools.draw(drawn.id, clock.monotonic())
    assert list(pools.order(keys, "prioritized", "m")) == []
    assert first(pools, "prioritized") == "k01"
    pools.recovered(state, "m")
    assert list(pools.order(keys, "prioritized", "m")) == [KEYS[0]]


def test_f42_a_trial_that_shows_nothing_ends_by_itself(pools: KeyPools, clock: FakeClock) -> None:
    pools.bench("k00", "refused by the upstream", 60, Cause.REFUSED)
    clock.advance(66)
    pools.draw("k00", clock.monotonic())
    assert not pools.serves("k00", "m")
    clock.advance(TRIAL_SECONDS)
    assert pools.serves("k00", "m")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_doubted_key_comes_after_all_others(pools: KeyPools, strategy: str) -> None:
    pools.doubt("k00")
    assert [one.id for one in pools.order(KEYS, strategy, "m")][-1] == "k00"
    assert pools.trust("k00")
    assert not pools.trust("k00")


def test_a_forgotten_key_has_no_state_in_any_pool(pools: KeyPools, clock: FakeClock) -> None:
    assert first(pools, "least-in-flight") == "k00"
    pools.draw("k00", clock.monotonic()).release()
    pools.forget("k00")
    pools.draw("k00", clock.monotonic())
    assert first(pools, "least-in-flight") == "k01"


class LeastMachine(RuleBasedStateMachine):
    """The two strategies that follow use, against a look at every key."""

    @initialize(count=st.integers(2, 8))
    def begin(self, count: int) -> None:
        self.clock = FakeClock()
        self.pools = KeyPools(self.clock)
        self.keys = KEYS[:count]
        self.drawn: list[tuple[str, KeyState]] = []

    @rule(data=st.data())
    def draw(self, data: Any) -> None:
        drawn = data.draw(st.sampled_from(self.keys)).id
        self.clock.advance(0.01)
        self.drawn.append((drawn, self.pools.draw(drawn, self.clock.monotonic())))

    @rule(data=st.data())
    def release(self, data: Any) -> None:
        if self.drawn:
            place = data.draw(st.integers(0, len(self.drawn) - 1))
            self.drawn.pop(place)[1].release()

    @rule(data=st.data(), seconds=st.sampled_from([1.0, 5.0]))
    def bench(self, data: Any, seconds: float) -> None:
        self.pools.bench(data.draw(st.sampled_from(self.keys)).id, "throttled", seconds)

    @rule()
    def wait(self) -> None:
        self.clock.advance(2.0)

    @rule(strategy=st.sampled_from(["least-recently-used", "least-in-flight"]))
    def pick(self, strategy: str) -> None:
        field = "last_used" if strategy == "least-recently-used" else "in_flight"
        ready = [one for one in self.keys if self.pools.serves(one.id, "m")]
        order = list(self.pools.order(self.keys, strategy, "m"))
        figures = [getattr(self.pools.state(one.id), field) for one in order]
        assert sorted(one.id for one in order) == sorted(one.id for one in ready)
        assert figures == sorted(figures)


TestLeastAgainstALookAtEveryKey = LeastMachine.TestCase
