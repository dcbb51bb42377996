"""What a state store promises."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

import pytest

from relay_gateway.ids import new_id
from relay_gateway.plugin import Grant, Hold, StateStore, Strategy
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.limit_walk import HOURS, PRECISION, STRATEGIES, LimitWalk

MakeStore = Callable[[], StateStore]
OpenStore = Callable[[], Awaitable[StateStore]]

WINDOWED = tuple(one for one in STRATEGIES if one != "gauge")
SHORT = 0.25
"""A window that a test waits for when the store's time cannot be turned."""
PATIENCE = 10.0
AT_ONCE = 200
ODD_KEYS = (
    "rl_1:relay-key:rk_2",
    "tag:team={blue}",
    "{}",
    "a b'c\"d\\e%s*?[x]",
    "colon:comma,semicolon;equals=",
    "x" * 400,
)

each_strategy = pytest.mark.parametrize("strategy", STRATEGIES)
each_windowed = pytest.mark.parametrize("strategy", WINDOWED)


class StateStoreConformance:
    """Subclass and provide ``make_store``, and ``clock`` where the store's time can be turned.

    A store that declares ``shared`` is made several times over the same state; one that declares
    ``immediate`` is asked in both ways. Without a ``clock`` the tests wait for windows of a quarter
    of a second, and the exact arithmetic is compared only as far as no time passes.
    """

    @pytest.fixture
    def make_store(self) -> MakeStore:
        """Makes a store, not opened yet; over the same state each time where it is shared."""
        raise NotImplementedError

    @pytest.fixture
    def clock(self) -> FakeClock | None:
        """What the store takes its time from, or ``None`` where that cannot be turned."""
        return None

    @pytest.fixture
    async def open_store(self, make_store: MakeStore) -> AsyncIterator[OpenStore]:
        """Opens one more store; all are closed after the test."""
        async with AsyncExitStack() as stack:

            async def opened() -> StateStore:
                store = make_store()
                stack.push_async_callback(store.context.aclose)
                stack.push_async_callback(store.aclose)
                await store.aopen()
                return store

            yield opened

    @pytest.fixture
    async def store(self, open_store: OpenStore) -> StateStore:
        """An opened store."""
        return await open_store()

    async def test_it_bears_being_closed_unopened_and_twice(self, make_store: MakeStore) -> None:
        store = make_store()
        await store.aclose()
        await store.aopen()
        await store.aclose()
        await store.aclose()
        await store.context.aclose()

    async def test_it_can_be_opened_again(self, make_store: MakeStore) -> None:
        store = make_store()
        for _ in range(2):
            await store.aopen()
            assert (await store.reserve(new_id(), [hold("gauge")])).refused == -1
            await store.aclose()
        await store.context.aclose()

    def test_its_schemes_are_lower_case(self, make_store: MakeStore) -> None:
        schemes = make_store().schemes
        assert all(one == one.lower() and ":" not in one for one in schemes), (
            f"schemes are compared with the part of RELAY_STATE_URL before ://, not {schemes}"
        )

    async def test_a_reservation_of_nothing_is_granted(self, store: StateStore) -> None:
        assert await store.reserve(new_id(), []) == Grant(-1, 0.0, (), ())

    @each_strategy
    async def test_exactly_the_limit_is_granted(
        self, store: StateStore, strategy: Strategy
    ) -> None:
        one = hold(strategy, amount=4, limit=10)
        grants = [await store.reserve(new_id(), [one]) for _ in range(3)]
        assert [grant.refused for grant in grants] == [-1, -1, 0], "4 + 4 + 4 is more than 10"
        assert [grant.remaining for grant in grants] == [(6,), (2,), (2,)], (
            "remaining is what is left after the claim; a refused one takes nothing"
        )
        rest = await store.reserve(new_id(), [hold(strategy, amount=2, limit=10)])
        assert (rest.refused, rest.remaining) == (-1, (0,)), "what is left may be claimed"
        _assert_times(grants, one)

    async def test_a_request_takes_all_its_claims_or_none(self, store: StateStore) -> None:
        free = [hold(strategy, key=f"free {strategy}") for strategy in STRATEGIES]
        full = hold("fixed-window", key="full", limit=1)
        await store.reserve(new_id(), [full])
        grant = await store.reserve(new_id(), [*free, full])
        assert grant.refused == len(free), "refused is the index of the first hold without room"
        for number, one in enumerate(free):
            left = (await store.reserve(new_id(), [one])).remaining
            assert left == (one.limit - 1,), f"hold {number} of a refused request was kept"

    async def test_the_first_claim_without_room_is_named(self, store: StateStore) -> None:
        holds = [hold("gauge", key=str(number), limit=number) for number in (3, 1, 2)]
        for _ in range(2):
            grant = await store.reserve(new_id(), holds)
        assert grant.refused == 1
        assert len(grant.remaining) == len(grant.reset) == 3, "figures are one per hold, always"

    @each_strategy
    async def test_more_than_the_limit_never_fits(
        self, store: StateStore, strategy: Strategy
    ) -> None:
        one = hold(strategy, amount=11, limit=10)
        grant = await store.reserve(new_id(), [one])
        assert grant.refused == 0
        assert abs(grant.retry_after - one.window) < PRECISION, (
            "no time makes room for it: retry_after is the window"
        )

    @each_strategy
    async def test_a_repeated_call_takes_nothing_twice(
        self, store: StateStore, strategy: Strategy
    ) -> None:
        one, request_id = hold(strategy, amount=4, limit=10), new_id()
        grants = await asyncio.gather(*(store.reserve(request_id, [one]) for _ in range(8)))
        assert {(grant.refused, grant.remaining) for grant in grants} == {(-1, (6,))}, (
            "the same request id with the same holds is the same reservation"
        )

    @each_windowed
    async def test_a_settlement_counts_what_was_used(
        self, store: StateStore, strategy: Strategy
    ) -> None:
        for used, left in ((4, 96), (1, 95), (0, 95), (7, 88)):
            one, request_id = hold(strategy, amount=4, limit=100), new_id()
            await store.reserve(request_id, [one])
            await store.settle(request_id, [one], [used])
            assert await _left(store, one) == left, f"4 were claimed and {used} used"

    @each_windowed
    async def test_what_was_used_beyond_the_limit_is_counted(
        self, store: StateStore, strategy: Strategy
    ) -> None:
        one, request_id = hold(strategy, amount=4, limit=10), new_id()
        await store.reserve(request_id, [one])
        await store.settle(request_id, [one], [25])
        grant = await store.reserve(new_id(), [hold(strategy, amount=1, limit=10)])
        assert grant.refused == 0, "25 of 10 are used, and one more was granted"
        assert grant.remaining == (0,), "remaining is never below 0"

    async def test_a_gauge_is_given_back_whole(self, store: StateStore) -> None:
        one, request_id = hold("gauge", amount=4, limit=10), new_id()
        for used in (0, 1, 4, 9):
            await store.reserve(request_id, [one])
            await store.settle(request_id, [one], [used])
            assert await _left(store, one) == 10, "a gauge counts what is held, not what was used"

    @each_strategy
    async def test_a_repeated_settlement_changes_nothing(
        self, store: StateStore, strategy: Strategy
    ) -> None:
        one, request_id = hold(strategy, amount=4, limit=100), new_id()
        await store.reserve(new_id(), [hold(strategy, amount=50, limit=100)])
        await store.reserve(request_id, [one])
        await store.settle(request_id, [one], [3])
        left = await _left(store, one)
        for used in (3, 0, 9):
            await store.settle(request_id, [one], [used])
        assert await _left(store, one) == left

    @each_strategy
    async def test_settling_what_was_never_reserved_changes_nothing(
        self, store: StateStore, strategy: Strategy
    ) -> None:
        one = hold(strategy, amount=4, limit=100)
        await store.reserve(new_id(), [hold(strategy, amount=50, limit=100)])
        for used in (0, 9):
            await store.settle(new_id(), [one], [used])
        assert await _left(store, one) == 50

    @each_strategy
    async def test_a_shadow_claim_is_counted_and_never_refused(
        self, store: StateStore, strategy: Strategy
    ) -> None:
        shadow = hold(strategy, amount=6, limit=10, shadow=True)
        real = hold(strategy, key="real", limit=1)
        first = await store.reserve(new_id(), [shadow])
        second = await store.reserve(new_id(), [real, shadow])
        assert (first.exceeded, second.exceeded) == ((), (1,)), (
            "exceeded are the indexes of shadow holds that had no room"
        )
        assert (second.refused, second.remaining) == (-1, (0, 0))
        assert (await store.reserve(new_id(), [shadow, real])).refused == 1, "real ones do refuse"

    async def test_keys_are_told_apart(self, store: StateStore) -> None:
        for key in ODD_KEYS:
            grant = await store.reserve(new_id(), [hold("fixed-window", key=key, limit=1)])
            assert grant.refused == -1, f"key {key!r} was counted together with another one"
        for key in ODD_KEYS:
            grant = await store.reserve(new_id(), [hold("fixed-window", key=key, limit=1)])
            assert grant.refused == 0, f"key {key!r} was forgotten"

    @each_windowed
    async def test_large_figures_are_exact(self, store: StateStore, strategy: Strategy) -> None:
        limit = 10**15
        # A bucket gives some of it back at each moment, so it is not asked for the last one.
        most = limit if strategy != "token-bucket" else limit // 2
        one, request_id = hold(strategy, amount=most - 1, limit=limit), new_id()
        await store.reserve(request_id, [one])
        await store.settle(request_id, [one], [most - 3])
        left = await _left(store, one)
        assert left == 3 if most == limit else left >= limit - most + 3, (
            "costs are counted in billionths: figures of 10**15 occur"
        )

    @each_strategy
    async def test_another_strategy_begins_anew(
        self, store: StateStore, strategy: Strategy
    ) -> None:
        other: Strategy = "fixed-window" if strategy != "fixed-window" else "gauge"
        await store.reserve(new_id(), [hold(other, amount=10, limit=10)])
        assert await _left(store, hold(strategy, limit=10)) == 10, (
            f"a rule that was {other} is now {strategy}, and what it had counted is in its way"
        )

    @each_strategy
    async def test_r32_callers_at_once_get_exactly_the_limit(
        self, open_store: OpenStore, strategy: Strategy
    ) -> None:
        stores = await _several(open_store)
        asked = [
            stores[number % len(stores)].reserve(new_id(), [hold(strategy, limit=50)])
            for number in range(AT_ONCE)
        ]
        grants = await asyncio.gather(*asked)
        granted = sum(grant.refused == -1 for grant in grants)
        assert granted == 50, f"{granted} of {AT_ONCE} callers at once were granted 1 of 50"

    async def test_everything_held_at_once_is_given_back(self, open_store: OpenStore) -> None:
        stores = await _several(open_store)
        holds = [
            hold(strategy, key=strategy, amount=2, limit=4 * AT_ONCE) for strategy in STRATEGIES
        ]

        async def one(number: int) -> None:
            request_id = new_id()
            store = stores[number % len(stores)]
            await store.reserve(request_id, holds)
            await store.settle(request_id, holds, [0] * len(holds))

        await asyncio.gather(*map(one, range(AT_ONCE)))
        for each in holds:
            assert await _left(stores[0], each) == each.limit, f"{each.strategy} kept some of it"

    async def test_t72_a_cancelled_call_disturbs_no_other(self, store: StateStore) -> None:
        chance = random.Random(72)  # noqa: S311 - to be the same each time

        async def one(number: int) -> tuple[int, int]:
            await asyncio.sleep(0)
            grant = await store.reserve(new_id(), [hold("gauge", key=f"n{number}", limit=number)])
            return number - 1, grant.remaining[0]

        for _ in range(5):
            tasks = [asyncio.ensure_future(one(number)) for number in range(1, 101)]
            for task in chance.sample(tasks, 50):
                for _ in range(chance.randrange(3)):
                    await asyncio.sleep(0)
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            answers = [one for one in outcomes if not isinstance(one, asyncio.CancelledError)]
            foreign = [one for one in answers if isinstance(one, BaseException)]
            assert foreign == [], "a call failed because another one was cancelled"
            # In later rounds more is held, never less; another caller's answer would have another
            # limit.
            mixed = [
                one for one in answers if not isinstance(one, BaseException) and one[1] > one[0]
            ]
            assert mixed == [], "(expected at most, got): somebody got another caller's answer"

    async def test_both_ways_of_asking_agree(self, open_store: OpenStore) -> None:
        store = await open_store()
        one, request_id = hold("fixed-window", amount=4, limit=10), new_id()
        if not store.immediate:
            with pytest.raises(NotImplementedError):
                store.reserve_now(request_id, [one])
            return
        assert store.reserve_now(request_id, [one]).remaining == (6,)
        assert (await store.reserve(request_id, [one])).remaining == (6,), "the same reservation"
        store.settle_now(request_id, [one], [1])
        await store.settle(request_id, [one], [0])
        assert await _left(store, one) == 9

    @pytest.mark.parametrize("seed", range(4))
    async def test_it_counts_as_the_reference_does(
        self, store: StateStore, clock: FakeClock | None, seed: int
    ) -> None:
        await LimitWalk(store, clock, seed).run()

    @each_windowed
    async def test_a_window_comes_back(
        self, store: StateStore, clock: FakeClock | None, strategy: Strategy
    ) -> None:
        timer = _Timer(clock)
        one = hold(strategy, amount=10, limit=10, window=timer.window)
        begun = timer.now()
        await store.reserve(new_id(), [one])
        waited = await timer.until_granted(store, one)
        # A fixed window may end at any moment, the others last their length.
        shortest = 0.0 if strategy == "fixed-window" else one.window
        assert timer.now() - begun >= shortest - PRECISION, "the limit came back too early"
        assert waited <= 2 * one.window + timer.slack, "the limit did not come back in time"

    @each_windowed
    async def test_retry_after_is_when_it_fits(
        self, store: StateStore, clock: FakeClock | None, strategy: Strategy
    ) -> None:
        timer = _Timer(clock)
        one = hold(strategy, amount=6, limit=10, window=timer.window)
        await store.reserve(new_id(), [one])
        grant = await store.reserve(new_id(), [one])
        # Where real time passes, a window may have ended between the two.
        await timer.wait(grant.retry_after + PRECISION)
        assert (await store.reserve(new_id(), [one])).refused == -1, (
            f"after the {grant.retry_after} s that it was told, the claim still does not fit"
        )

    async def test_a_lease_ends_by_itself(self, store: StateStore, clock: FakeClock | None) -> None:
        timer = _Timer(clock)
        one = hold("gauge", amount=10, limit=10, window=timer.window)
        begun = timer.now()
        await store.reserve(new_id(), [one])
        await timer.until_granted(store, one)
        assert timer.now() - begun >= one.window - PRECISION, "the lease ended too early"

    async def test_f65_a_late_settlement_gives_nothing_to_who_came_after(
        self, store: StateStore, clock: FakeClock | None
    ) -> None:
        timer = _Timer(clock)
        gone, request_id = hold("gauge", amount=10, limit=10, window=timer.window), new_id()
        await store.reserve(request_id, [gone])
        held = hold("gauge", amount=10, limit=10)
        await timer.until_granted(store, held)
        await store.settle(request_id, [gone], [0])
        assert (await store.reserve(new_id(), [held])).refused == 0, (
            "a request whose lease had ended gave back what another one holds now"
        )


def hold(
    strategy: Strategy,
    *,
    key: str = "rule",
    amount: int = 1,
    limit: int = 10,
    window: float = HOURS,
    shadow: bool = False,
) -> Hold:
    """A claim in a window in which no time passes, unless it is given."""
    return Hold(key, amount, limit, window, strategy, shadow)


class _Timer:
    """The store's time as far as a test can tell, turned or waited for."""

    def __init__(self, clock: FakeClock | None) -> None:
        self._clock = clock
        self.window = SHORT if clock is None else 60.0
        self.slack = PATIENCE if clock is None else 1.0

    def now(self) -> float:
        """Seconds that only grow."""
        return time.monotonic() if self._clock is None else self._clock.monotonic()

    async def wait(self, seconds: float) -> None:
        """Lets time pass."""
        if self._clock is None:
            await asyncio.sleep(seconds)
        else:
            self._clock.advance(seconds)

    async def until_granted(self, store: StateStore, one: Hold) -> float:
        """Asks until there is room, and takes it; tells how long that took."""
        begun = self.now()
        while (await store.reserve(new_id(), [one])).refused != -1:
            waited = self.now() - begun
            assert waited < 2 * self.window + self.slack, f"no room after {waited:.1f} s: {one}"
            await self.wait(self.window / 50)
        return self.now() - begun


def _assert_times(grants: Sequence[Grant], one: Hold) -> None:
    granted, refused = grants[0], grants[-1]
    assert granted.retry_after == 0, "there is nothing to wait for after a grant"
    longest = one.window * 1.1 + PRECISION
    assert 0 <= refused.retry_after <= longest, "retry_after is in seconds"
    assert all(0 <= grant.reset[0] <= longest for grant in grants), "reset is in seconds"


async def _several(open_store: OpenStore) -> list[StateStore]:
    """Four stores over the same state, or one where it is not shared."""
    first = await open_store()
    return [first, *[await open_store() for _ in range(3)]] if first.shared else [first]


async def _left(store: StateStore, one: Hold) -> int:
    """What is left of the limit of ``one``, found out without leaving anything behind."""
    probe, request_id = Hold(one.key, 0, one.limit, one.window, one.strategy), new_id()
    (left,) = (await store.reserve(request_id, [probe])).remaining
    await store.settle(request_id, [probe], [0])
    return left
