"""Periods of budgets, and what was spent in them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_gateway.catalog.budgets import (
    Account,
    Spender,
    Spending,
    Window,
    end_of,
    period_of,
    periods_of,
    spenders,
)

NOW = datetime(2026, 11, 20, 14, 5, tzinfo=UTC)
WINDOWS: tuple[Window, ...] = ("day", "week", "month")
POLICY = Spender("policy", "p", "USD")
MONTH = Account("2026-11", *POLICY)


@pytest.mark.parametrize(
    ("window", "period", "end"),
    [
        ("day", "2026-11-20", datetime(2026, 11, 21, tzinfo=UTC)),
        ("week", "2026-W47", datetime(2026, 11, 23, tzinfo=UTC)),
        ("month", "2026-11", datetime(2026, 12, 1, tzinfo=UTC)),
        ("total", "total", None),
    ],
)
def test_a_moment_lies_in_one_period_of_each_kind(
    window: Window, period: str, end: datetime | None
) -> None:
    assert (period_of(window, NOW), end_of(window, NOW)) == (period, end)


@given(
    moment=st.datetimes(
        min_value=datetime(2000, 1, 1),  # noqa: DTZ001 - the zone is added below
        max_value=datetime(2100, 1, 1),  # noqa: DTZ001
        timezones=st.just(UTC),
    ),
    window=st.sampled_from(WINDOWS),
)
def test_a_period_ends_where_the_next_begins(moment: datetime, window: Window) -> None:
    end = end_of(window, moment)
    assert end is not None
    assert end > moment
    assert period_of(window, end) != period_of(window, moment)
    last = datetime.fromtimestamp(end.timestamp() - 1, UTC)
    assert last < moment or period_of(window, last) == period_of(window, moment)


def test_a_request_is_on_the_account_of_everybody_who_has_to_do_with_it() -> None:
    found = set(spenders("k", "p", None, {"team": "a"}, "USD"))
    assert found == {
        Spender("global", "", "USD"),
        Spender("relay-key", "k", "USD"),
        POLICY,
        Spender("tag:team", "a", "USD"),
    }


def test_what_was_spent_here_counts_before_and_after_it_was_booked() -> None:
    spending = Spending()
    spending.put({MONTH: 100}, NOW)
    spending.hold([POLICY], 7)
    assert spending.of(MONTH) == 107
    spending.hold([POLICY], -7)
    spending.spend("r-1", [MONTH], 5)
    assert spending.of(MONTH) == 105
    spending.booked(["r-1", "of another process"], {MONTH: 8})
    assert spending.of(MONTH) == 108
    spending.put({MONTH: 108}, NOW)
    assert spending.of(MONTH) == 108


def test_what_was_booked_before_is_not_counted_again() -> None:
    spending = Spending()
    spending.spend("r-1", [MONTH], 5)
    spending.put({MONTH: 5}, NOW)
    spending.booked(["r-1"], {})
    assert spending.of(MONTH) == 5


def test_periods_that_are_over_are_forgotten() -> None:
    spending = Spending()
    october = Account("2026-10", *POLICY)
    spending.put({october: 5, MONTH: 6}, NOW)
    assert (spending.of(october), spending.of(MONTH)) == (0, 6)
    assert set(periods_of(NOW)) == {"2026-11-20", "2026-W47", "2026-11", "total"}
