"""A host that fails is left alone for a while, and never for ever."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec.structs import replace

from relay_gateway.catalog.snapshot import Host
from relay_gateway.catalog.specs import Timeouts, Tls
from relay_gateway.pipeline.breaker import (
    CONSECUTIVE,
    EJECT_SECONDS,
    FORGET_SECONDS,
    LONGEST_EJECTION,
    LONGEST_WISH,
    PROBE_SECONDS,
    SAMPLES,
    HostBreakers,
)
from relay_gateway.plugin import UpstreamHost
from relay_gateway.testing.clock import FakeClock

HOST = Host(
    id="h",
    slug="h",
    adapter="plain",
    view=UpstreamHost("h", "h", "http://h.test", "", None),
    wire_formats=frozenset({"plain.chat"}),
    no_auth=True,
    timeouts=Timeouts(),
    tls=Tls(),
    proxy_url=None,
    proxy_credential=None,
    max_connections=1,
    path_prefix=None,
)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def breakers(clock: FakeClock) -> HostBreakers:
    return made(clock)


def made(clock: FakeClock) -> HostBreakers:
    return HostBreakers(clock, jitter=lambda: 1.0)


def fail(breakers: HostBreakers, clock: FakeClock, times: int = 1) -> None:
    for _ in range(times):
        breakers.failed(HOST, clock.monotonic(), "status 500")


def allows(breakers: HostBreakers, clock: FakeClock) -> bool:
    breaker = breakers.troubled.get(HOST.id)
    return breaker is None or breaker.allows(clock.monotonic())


def probe(breakers: HostBreakers, clock: FakeClock, *, succeeds: bool) -> None:
    assert allows(breakers, clock)
    breakers.troubled[HOST.id].claim(clock.monotonic())
    if succeeds:
        breakers.succeeded(HOST.id, clock.monotonic())
    else:
        fail(breakers, clock)


def test_f41_five_failures_in_a_row_eject_a_host(breakers: HostBreakers, clock: FakeClock) -> None:
    fail(breakers, clock, CONSECUTIVE - 1)
    assert allows(breakers, clock)
    fail(breakers, clock)
    assert not allows(breakers, clock)
    state = breakers.describe("h")
    assert (state.state, state.reason, state.seconds_left) == ("ejected", "status 500", 30.0)


def test_f41_a_success_in_between_begins_the_count_anew(
    breakers: HostBreakers, clock: FakeClock
) -> None:
    for _ in range(3):
        fail(breakers, clock, CONSECUTIVE - 1)
        breakers.succeeded("h", clock.monotonic())
    assert allows(breakers, clock)


def test_f41_half_of_twenty_within_ten_seconds_eject_a_host(
    breakers: HostBreakers, clock: FakeClock
) -> None:
    for _ in range(SAMPLES // 2 - 1):
        fail(breakers, clock)
        clock.advance(0.4)
        breakers.succeeded("h", clock.monotonic())
    breakers.succeeded("h", clock.monotonic())
    assert allows(breakers, clock)
    fail(breakers, clock)
    assert not allows(breakers, clock)


def test_f41_failures_of_longer_ago_do_not_count(breakers: HostBreakers, clock: FakeClock) -> None:
    for _ in range(40):
        fail(breakers, clock)
        clock.advance(2)
        breakers.succeeded("h", clock.monotonic())
    assert allows(breakers, clock)


def test_f42_twenty_five_failures_bench_and_their_end_comes(
    breakers: HostBreakers, clock: FakeClock
) -> None:
    fail(breakers, clock, 25)
    assert not allows(breakers, clock)
    clock.advance(LONGEST_EJECTION + PROBE_SECONDS)
    assert allows(breakers, clock)


def test_f41_half_open_admits_exactly_one_until_it_is_answered(
    breakers: HostBreakers, clock: FakeClock
) -> None:
    fail(breakers, clock, CONSECUTIVE)
    clock.advance(EJECT_SECONDS)
    assert breakers.describe("h").state == "half-open"
    breakers.troubled["h"].claim(clock.monotonic())
    assert [allows(breakers, clock) for _ in range(10)] == [False] * 10
    breakers.succeeded("h", clock.monotonic())
    assert allows(breakers, clock)
    assert breakers.describe("h").state == "available"


def test_f42_a_probe_that_never_ends_lets_another_one_follow(
    breakers: HostBreakers, clock: FakeClock
) -> None:
    fail(breakers, clock, CONSECUTIVE)
    clock.advance(EJECT_SECONDS)
    breakers.troubled["h"].claim(clock.monotonic())
    clock.advance(PROBE_SECONDS)
    assert allows(breakers, clock)


def test_a_probe_whose_caller_left_lets_another_one_follow_at_once(
    breakers: HostBreakers, clock: FakeClock
) -> None:
    fail(breakers, clock, CONSECUTIVE)
    clock.advance(EJECT_SECONDS)
    breakers.troubled["h"].claim(clock.monotonic())
    assert not allows(breakers, clock)
    breakers.troubled["h"].release()
    assert allows(breakers, clock)


def test_f41_each_failed_probe_lengthens_the_ejection_up_to_five_minutes(
    breakers: HostBreakers, clock: FakeClock
) -> None:
    fail(breakers, clock, CONSECUTIVE)
    left = []
    for _ in range(12):
        seconds = breakers.describe("h").seconds_left
        assert seconds is not None
        left.append(seconds)
        clock.advance(seconds)
        probe(breakers, clock, succeeds=False)
    assert left == [min(300.0, 30.0 * n) for n in range(1, 13)]
    assert breakers.opened == {"h": 13}


def test_f42_a_cooldown_is_never_shortened_by_a_later_shorter_one(
    breakers: HostBreakers, clock: FakeClock
) -> None:
    for _ in range(CONSECUTIVE):
        breakers.failed(HOST, clock.monotonic(), "status 503", 500)
    clock.advance(PROBE_SECONDS)
    breaker = breakers.troubled["h"]
    assert breaker.allows_last_resort(clock.monotonic())
    breaker.claim(clock.monotonic())
    breakers.failed(HOST, clock.monotonic(), "status 503", 1)
    assert breakers.describe("h").seconds_left == 470.0


@given(st.lists(st.floats(0, 1e12), min_size=1, max_size=40), st.floats(0, 400))
def test_f42_every_ejection_ends_whatever_was_asked_for(wishes: list[float], gap: float) -> None:
    clock = FakeClock()
    breakers = made(clock)
    for wish in wishes:
        breakers.failed(HOST, clock.monotonic(), "status 503", wish)
        clock.advance(gap)
    clock.advance(LONGEST_WISH + PROBE_SECONDS)
    assert allows(breakers, clock)


def test_what_was_under_way_before_the_ejection_says_nothing_about_the_time_after(
    breakers: HostBreakers, clock: FakeClock
) -> None:
    before = clock.monotonic()
    clock.advance(1)
    fail(breakers, clock, CONSECUTIVE)
    clock.advance(1)
    breakers.succeeded("h", before)
    assert not allows(breakers, clock)
    clock.advance(EJECT_SECONDS)
    probe(breakers, clock, succeeds=True)
    for _ in range(CONSECUTIVE):
        breakers.failed(HOST, before, "status 500")
    assert allows(breakers, clock)


def test_f65_what_spans_a_stall_of_the_process_is_no_failure_of_a_host(clock: FakeClock) -> None:
    stalled_at = clock.monotonic() + 10
    breakers = HostBreakers(clock, stalled=lambda began, _now: began < stalled_at)
    began = clock.monotonic()
    clock.advance(30)
    for _ in range(25):
        breakers.failed(HOST, began, "upstream_timeout")
    assert allows(breakers, clock)
    fail(breakers, clock, CONSECUTIVE)
    assert not allows(breakers, clock)


def test_a_host_that_was_changed_starts_anew(breakers: HostBreakers, clock: FakeClock) -> None:
    fail(breakers, clock, CONSECUTIVE)
    breakers.retain({"h": HOST})
    assert not allows(breakers, clock)
    breakers.retain({"h": replace(HOST, slug="other")})
    assert allows(breakers, clock)


def test_f60_a_step_of_the_wall_clock_changes_nothing(
    breakers: HostBreakers, clock: FakeClock
) -> None:
    fail(breakers, clock, CONSECUTIVE)
    clock.set_time(clock.time() + 86_400)
    assert breakers.describe("h").seconds_left == 30.0
    clock.set_time(clock.time() - 2 * 86_400)
    assert breakers.describe("h").seconds_left == 30.0


class BreakerMachine(RuleBasedStateMachine):
    """The breaker against a plain reference: a list of everything that happened since the last
    change of state."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.breakers = made(self.clock)
        self.samples: list[tuple[float, bool]] = []
        self.ejections = 0
        self.until = 0.0
        self.last_failure = 0.0

    @property
    def now(self) -> float:
        return self.clock.monotonic()

    @rule(seconds=st.sampled_from([0.1, 0.7, 3.0, 11.0, 31.0, 200.0]))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(ok=st.sampled_from([True, False, False]), times=st.integers(1, 12))
    def ask(self, ok: bool, times: int) -> None:
        for _ in range(times):
            if self.expected():
                self.attempt(ok)

    def attempt(self, ok: bool) -> None:
        breaker = self.breakers.troubled.get("h")
        if breaker is not None:
            breaker.claim(self.now)
        if ok:
            self.breakers.succeeded("h", self.now)
        else:
            fail(self.breakers, self.clock)
        if not self.until and self.now - self.last_failure > FORGET_SECONDS:
            self.ejections, self.samples = 0, [] if ok else self.samples
        if not ok:
            self.last_failure = self.now
        if self.until and ok:
            self.until = 0.0
        elif self.until:
            self.eject()
        elif not ok or self.samples:  # before the first failure there is nothing to remember
            self.samples.append((self.now, ok))
            if not ok and self.is_bad():
                self.eject()

    def is_bad(self) -> bool:
        last = [ok for _, ok in self.samples[-CONSECUTIVE:]]
        recent = [ok for at, ok in self.samples if int(at) > int(self.now) - 10]
        flaky = len(recent) >= SAMPLES and recent.count(False) >= len(recent) / 2
        return (len(last) == CONSECUTIVE and not any(last)) or flaky

    def eject(self) -> None:
        self.ejections += 1
        self.until = max(self.until, self.now + min(LONGEST_EJECTION, 30.0 * self.ejections))
        self.samples = []

    def expected(self) -> bool:
        return not self.until or self.until <= self.now

    @invariant()
    def the_same_is_allowed(self) -> None:
        assert allows(self.breakers, self.clock) is self.expected()
        left = self.breakers.describe("h").seconds_left or 0.0
        assert left == pytest.approx(max(0.0, self.until - self.now), abs=0.06)


TestBreakerAgainstReference = BreakerMachine.TestCase
