"""What becomes of each rule while the state store cannot be asked."""

from __future__ import annotations

import pytest

from relay_gateway.catalog.limit_rules import LEASE_SECONDS, LimitRule, OnStateLoss
from relay_gateway.limits.choose import in_memory, limiter_over
from relay_gateway.limits.limiter import Claim, Limiter
from relay_gateway.plugin import Hold
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.waiting_store import Mood, WaitingStore


def claim(key: str, loss: OnStateLoss = "local", *, shadow: bool = False) -> Claim:
    rule = LimitRule(key, key, "requests", 1, 60.0, "fixed-window", shadow, loss)
    return Claim(rule, Hold(key, 1, 1, 60.0, "fixed-window", shadow))


@pytest.fixture
async def waiting(clock: FakeClock) -> WaitingStore:
    return WaitingStore(clock)


@pytest.fixture
async def limiter(waiting: WaitingStore, clock: FakeClock) -> Limiter:
    return limiter_over(waiting, clock)


async def test_without_the_store_a_local_rule_is_counted_in_this_process(
    limiter: Limiter, waiting: WaitingStore
) -> None:
    waiting.mood = "fails"
    claims = [claim("open", "open"), claim("local")]
    first = await limiter.reserve("a", claims)
    assert (first.refused, list(first.remaining)) == (-1, [1, 0])
    second = await limiter.reserve("b", claims)
    assert (second.refused, second.lost) == (1, False)
    assert second.retry_after > 0
    limiter.settle(first, [1, 0])
    assert (await limiter.reserve("c", claims)).refused < 0


async def test_without_the_store_a_closed_rule_refuses(
    limiter: Limiter, waiting: WaitingStore
) -> None:
    waiting.mood = "fails"
    refused = await limiter.reserve("a", [claim("local"), claim("closed", "closed")])
    assert (refused.refused, refused.lost) == (1, True)
    assert refused.retry_after > 0
    # The other rule was not charged.
    assert (await limiter.reserve("b", [claim("local")])).refused < 0


async def test_without_the_store_a_closed_shadow_refuses_nothing(
    limiter: Limiter, waiting: WaitingStore
) -> None:
    waiting.mood = "fails"
    assert (await limiter.reserve("a", [claim("closed", "closed", shadow=True)])).refused < 0


async def test_what_the_store_took_is_settled_there(
    limiter: Limiter, waiting: WaitingStore
) -> None:
    taken = await limiter.reserve("a", [claim("k")])
    limiter.settle(taken, [0])
    await limiter.aclose()
    assert (await limiter.reserve("b", [claim("k")])).refused < 0


async def test_a_settlement_that_fails_is_no_ones_trouble(
    limiter: Limiter, waiting: WaitingStore
) -> None:
    taken = await limiter.reserve("a", [claim("k")])
    waiting.mood = "fails"
    limiter.settle(taken, [0])
    await limiter.aclose()


async def test_decisions_are_counted_by_rule(limiter: Limiter, waiting: WaitingStore) -> None:
    await limiter.reserve("a", [claim("k"), claim("quiet", shadow=True)])
    await limiter.reserve("b", [claim("quiet", shadow=True)])
    await limiter.reserve("c", [claim("k")])
    waiting.mood = "fails"
    await limiter.reserve("d", [claim("k")])
    assert sorted(limiter.tally) == [
        ("k", "allowed", 1),
        ("k", "lost", 1),
        ("k", "refused", 1),
        ("quiet", "allowed", 1),
        ("quiet", "shadow", 1),
    ]


def test_the_tally_stops_telling_rules_apart_when_there_are_too_many(clock: FakeClock) -> None:
    limiter = in_memory(clock)
    for number in range(5000):
        limiter.tally.add(f"rule {number}", "allowed")
    counts = {rule: count for rule, _, count in limiter.tally}
    assert counts["other"] == 5000 - (len(counts) - 1)
    assert len(counts) <= 4001


async def test_a_repeated_reservation_takes_nothing_twice(clock: FakeClock) -> None:
    limiter = in_memory(clock)
    assert limiter.reserve_now("a", [claim("k")]).refused < 0
    assert limiter.reserve_now("a", [claim("k")]).refused < 0


@pytest.mark.parametrize("mood", ["answers", "fails"])
async def test_what_is_held_for_long_keeps_its_lease(
    limiter: Limiter, waiting: WaitingStore, clock: FakeClock, mood: Mood
) -> None:
    waiting.mood = mood
    rule = LimitRule("g", "g", "concurrency", 1, LEASE_SECONDS, "gauge")
    slot = Claim(rule, Hold("g", 1, 1, LEASE_SECONDS, "gauge"))
    held = await limiter.reserve("a", [slot])
    for _ in range(20):
        clock.advance(LEASE_SECONDS / 2)
        await limiter.renew_leases()
        assert (await limiter.reserve("b", [slot])).refused == 0
    limiter.settle(held, [1])
    await limiter.aclose()
    assert (await limiter.reserve("c", [slot])).refused < 0


async def test_what_nobody_gave_back_ends_with_its_lease(clock: FakeClock) -> None:
    limiter = in_memory(clock)
    rule = LimitRule("g", "g", "concurrency", 1, LEASE_SECONDS, "gauge")
    slot = Claim(rule, Hold("g", 1, 1, LEASE_SECONDS, "gauge"))
    limiter.reserve_now("a", [slot])
    clock.advance(LEASE_SECONDS)
    assert limiter.reserve_now("b", [slot]).refused < 0
