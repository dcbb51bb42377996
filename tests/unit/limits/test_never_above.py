"""Whatever happens, no limit is ever exceeded: judged by a log of everything that was used."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from relay_gateway.limits.choose import memory_store
from relay_gateway.plugin import Hold, Strategy
from relay_gateway.testing.clock import FakeClock

LIMIT = 20
WINDOW = 10.0
LEASE = 50.0
EPSILON = 1e-6


@dataclass(slots=True)
class Use:
    """One claim: when it was made, and what is held or was used in the end."""

    at: float
    amount: int
    session: float
    settled: bool = False


class NeverAbove(RuleBasedStateMachine):
    """Claims, settlements and time in any order; the log knows what each strategy must not allow.

    Nothing is used beyond its claim here: that is the one overshoot there may be.
    """

    strategy: Strategy

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.store = memory_store(self.clock)
        self.log: list[Use] = []
        self.open: dict[str, tuple[Hold, Use]] = {}
        self.session = float("-inf")
        self.number = 0

    @rule(amount=st.integers(1, LIMIT))
    def claim(self, amount: int) -> None:
        self.number += 1
        window = LEASE if self.strategy == "gauge" else WINDOW
        hold = Hold("k", amount, LIMIT, window, self.strategy)
        grant = self.store.reserve_now(f"r{self.number}", (hold,))
        if grant.refused >= 0:
            assert grant.retry_after > 0
            return
        now = self.clock.time()
        if now >= self.session + WINDOW:
            self.session = now
        use = Use(now, amount, self.session)
        self.log.append(use)
        self.open[f"r{self.number}"] = (hold, use)

    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        if not self.open:
            return
        request_id = data.draw(st.sampled_from(sorted(self.open)))
        hold, use = self.open.pop(request_id)
        used = data.draw(st.integers(0, hold.amount))
        self.store.settle_now(request_id, (hold,), (used,))
        use.amount, use.settled = used, True

    @rule(seconds=st.floats(0.001, 2 * WINDOW))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def nothing_is_above_its_limit(self) -> None:
        assert getattr(self, f"most_{self.strategy.replace('-', '_')}")() <= LIMIT + EPSILON

    def most_sliding_window(self) -> float:
        """The largest sum over any window that ends with a use."""
        return max((self._within(use.at) for use in self.log), default=0)

    def most_fixed_window(self) -> float:
        sums: dict[int, int] = {}
        for use in self.log:
            index = floor(use.at / WINDOW)
            sums[index] = sums.get(index, 0) + use.amount
        return max(sums.values(), default=0)

    def most_session_window(self) -> float:
        sums: dict[float, int] = {}
        for use in self.log:
            sums[use.session] = sums.get(use.session, 0) + use.amount
        return max(sums.values(), default=0)

    def most_token_bucket(self) -> float:
        """The most that a span of time had beyond what came in during it."""
        most = 0.0
        for index, first in enumerate(self.log):
            total = 0
            for use in self.log[index:]:
                total += use.amount
                most = max(most, total - (use.at - first.at) * LIMIT / WINDOW)
        return most

    def most_gauge(self) -> float:
        now = self.clock.time()
        return sum(u.amount for u in self.log if not u.settled and u.at + LEASE > now)

    def _within(self, end: float) -> int:
        return sum(use.amount for use in self.log if end - WINDOW < use.at <= end)


@pytest.mark.parametrize(
    "strategy", ["token-bucket", "sliding-window", "fixed-window", "session-window", "gauge"]
)
def test_r32_no_strategy_is_ever_above_its_limit(strategy: Strategy) -> None:
    machine = type("Machine", (NeverAbove,), {"strategy": strategy})
    limits = settings(max_examples=60, stateful_step_count=40, deadline=None)
    run_state_machine_as_test(machine, settings=limits)


class Overshoot(NeverAbove):
    """Requests that use up to three times what they claimed: a limit is overshot by just that, and
    by nobody who comes after it was counted."""

    def __init__(self) -> None:
        super().__init__()
        self.beyond = 0
        """What was used beyond claims since the last one, by requests that were under way then."""

    @rule(amount=st.integers(1, LIMIT))
    def claim(self, amount: int) -> None:
        before = len(self.log)
        super().claim(amount)
        if len(self.log) > before:
            self.beyond = 0

    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        if not self.open:
            return
        request_id = data.draw(st.sampled_from(sorted(self.open)))
        hold, use = self.open.pop(request_id)
        used = data.draw(st.integers(0, 3 * hold.amount))
        self.store.settle_now(request_id, (hold,), (used,))
        use.amount, use.settled = min(used, hold.amount), True
        beyond = used - use.amount
        if beyond:
            now = self.clock.time()
            if now >= self.session + WINDOW:
                self.session = now
            self.log.append(Use(now, beyond, self.session, settled=True))
            self.beyond += beyond

    @invariant()
    def nothing_is_above_its_limit(self) -> None:
        most = getattr(self, f"most_{self.strategy.replace('-', '_')}")()
        self.highest = max(self.highest, self.beyond)
        assert most <= LIMIT + self.highest + EPSILON

    highest = 0
    """The largest sum of that kind so far: windows that are over stay in the log."""


@pytest.mark.parametrize(
    "strategy", ["token-bucket", "sliding-window", "fixed-window", "session-window"]
)
def test_r32_a_limit_is_overshot_by_what_was_used_beyond_claims_and_no_more(
    strategy: Strategy,
) -> None:
    machine = type("Machine", (Overshoot,), {"strategy": strategy})
    limits = settings(max_examples=60, stateful_step_count=40, deadline=None)
    run_state_machine_as_test(machine, settings=limits)
