"""Who fails too often waits, and nobody else does."""

from __future__ import annotations

import pytest

from relay_gateway.security.throttle import (
    FREE_FAILURES,
    LONGEST_DELAY_SECONDS,
    MAX_REMEMBERED,
    LoginThrottle,
)
from relay_gateway.testing.clock import FakeClock


@pytest.fixture
def throttle(fake_clock: FakeClock) -> LoginThrottle:
    return LoginThrottle(fake_clock.monotonic)


def fail(throttle: LoginThrottle, times: int, name: str = "ada", address: str = "10.0.0.1") -> None:
    for _ in range(times):
        assert throttle.begin(name, address) is None


def test_t46_the_sixth_failure_within_15_minutes_waits(
    throttle: LoginThrottle, fake_clock: FakeClock
) -> None:
    fail(throttle, FREE_FAILURES)
    wait = throttle.begin("ada", "10.0.0.2")
    assert wait is not None
    fake_clock.advance(wait - 0.01)
    assert throttle.begin("ada", "10.0.0.2") is not None
    fake_clock.advance(0.02)
    assert throttle.begin("ada", "10.0.0.2") is None


def test_t46_delays_grow_to_30_seconds_and_no_further(
    throttle: LoginThrottle, fake_clock: FakeClock
) -> None:
    fail(throttle, FREE_FAILURES)
    waits = []
    for _ in range(6):
        wait = throttle.begin("ada", "10.0.0.1")
        assert wait is not None
        waits.append(wait)
        fake_clock.advance(wait)
        fail(throttle, 1)
    assert waits == sorted(waits)
    assert waits[0] < waits[1] < waits[-1] == LONGEST_DELAY_SECONDS


def test_an_address_waits_whatever_names_it_tries(throttle: LoginThrottle) -> None:
    for number in range(FREE_FAILURES):
        fail(throttle, 1, name=f"user-{number}")
    assert throttle.begin("another", "10.0.0.1") is not None
    assert throttle.begin("another", "10.0.0.2") is None


@pytest.mark.parametrize(
    ("address", "other"), [("2001:db8::1", "2001:db8::2:3"), ("10.0.0.1", "::ffff:10.0.0.1")]
)
def test_addresses_of_one_caller_count_as_one(
    throttle: LoginThrottle, address: str, other: str
) -> None:
    for number in range(FREE_FAILURES):
        fail(throttle, 1, name=f"user-{number}", address=address)
    assert throttle.begin("another", other) is not None
    assert throttle.begin("another", "2001:db8:0:1::1") is None


def test_failures_are_forgotten_after_15_minutes(
    throttle: LoginThrottle, fake_clock: FakeClock
) -> None:
    fail(throttle, FREE_FAILURES)
    fake_clock.advance(15 * 60 + 1)
    fail(throttle, FREE_FAILURES)


def test_t77_setting_the_clock_ends_no_delay(
    throttle: LoginThrottle, fake_clock: FakeClock
) -> None:
    fail(throttle, FREE_FAILURES)
    wait = throttle.begin("ada", "10.0.0.1")
    for days in (1, -1):
        fake_clock.set_time(fake_clock.time() + days * 86_400)
        assert throttle.begin("ada", "10.0.0.1") == wait


def test_a_success_clears_the_name_and_not_the_address(throttle: LoginThrottle) -> None:
    fail(throttle, FREE_FAILURES - 1)
    fail(throttle, 1)
    throttle.withdraw("ada", "10.0.0.1", succeeded=True)
    fail(throttle, 1, address="10.0.0.9")
    fail(throttle, 1, name="bob")
    assert throttle.begin("bob", "10.0.0.1") is not None


def test_attempts_at_once_cannot_outrun_the_count(throttle: LoginThrottle) -> None:
    outcomes = [throttle.begin("ada", f"10.0.1.{number}") for number in range(20)]
    assert outcomes.count(None) == FREE_FAILURES


def test_an_attempt_that_decided_nothing_is_taken_back(throttle: LoginThrottle) -> None:
    for _ in range(FREE_FAILURES * 2):
        fail(throttle, 1)
        throttle.withdraw("ada", "10.0.0.1", succeeded=False)


def test_memory_is_bounded(throttle: LoginThrottle) -> None:
    for number in range(MAX_REMEMBERED + 10):
        throttle.begin(f"user-{number}", f"address-{number}")
    assert len(throttle._failures) <= MAX_REMEMBERED
