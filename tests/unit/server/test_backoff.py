"""How long a child that died is waited with."""

from __future__ import annotations

from relay_gateway.server.backoff import LONGEST_SECONDS, STEADY_SECONDS, Backoff


def test_f62_early_deaths_are_waited_with_twice_as_long_each_time_up_to_a_limit() -> None:
    backoff = Backoff()
    assert [backoff.after(1.0) for _ in range(4)] == [0.1, 0.2, 0.4, 0.8]
    assert [backoff.after(0.0) for _ in range(6)][-2:] == [LONGEST_SECONDS, LONGEST_SECONDS]


def test_f62_after_a_long_life_nothing_is_waited_and_the_count_begins_anew() -> None:
    backoff = Backoff()
    assert backoff.after(STEADY_SECONDS) == 0.0
    backoff.after(1.0)
    backoff.after(1.0)
    assert backoff.after(STEADY_SECONDS) == 0.0
    assert backoff.after(1.0) == 0.1
