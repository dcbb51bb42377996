"""The store of several processes, in one process: the same arithmetic, in a table in a file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from relay_gateway.errors import StateBusyError, StateUnavailableError
from relay_gateway.limits.shared_store import SharedStore
from relay_gateway.limits.table import Table, digest_of
from relay_gateway.plugin import Hold, PluginConfig, PluginContext
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.conformance.stores import MakeStore, StateStoreConformance
from relay_gateway.testing.limit_reference import ReferenceLimits

MakeShared = Callable[[], SharedStore]
FULL = Hold("k", 10, 10, 60.0, "fixed-window")
SLOT = Hold("g", 1, 2, 600.0, "gauge")


@pytest.fixture
async def opened(make_shared: MakeShared) -> AsyncIterator[Callable[[], SharedStore]]:
    async with AsyncExitStack() as stack:
        stores = [make_shared(), make_shared(), make_shared()]
        for store in stores:
            await store.aopen()
            stack.push_async_callback(store.aclose)
        yield iter(stores).__next__


def test_what_one_process_claims_the_others_see(opened: Callable[[], SharedStore]) -> None:
    one, other = opened(), opened()
    assert one.reserve_now("a", (FULL,)).refused < 0
    assert other.reserve_now("b", (FULL,)).refused == 0
    one.settle_now("a", (FULL,), (4,))
    assert other.reserve_now("c", (Hold("k", 6, 10, 60.0, "fixed-window"),)).refused < 0


def test_a_gauge_adds_up_what_all_processes_hold(opened: Callable[[], SharedStore]) -> None:
    one, other = opened(), opened()
    assert one.reserve_now("a", (SLOT,)).refused < 0
    assert other.reserve_now("b", (SLOT,)).refused < 0
    assert one.reserve_now("c", (SLOT,)).refused == 0
    other.settle_now("b", (SLOT,), (0,))
    assert one.reserve_now("d", (SLOT,)).remaining == (0,)


async def test_what_a_process_held_ends_with_it(make_shared: MakeShared, clock: FakeClock) -> None:
    one, other = make_shared(), make_shared()
    await one.aopen()
    await other.aopen()
    assert one.reserve_now("a", (SLOT,)).refused < 0
    assert one.reserve_now("b", (SLOT,)).refused < 0
    assert other.reserve_now("c", (SLOT,)).refused == 0
    await one.aclose()
    clock.advance(1.0)
    assert other.reserve_now("d", (SLOT,)).refused < 0
    await other.aclose()


async def test_counts_outlive_the_processes(make_shared: MakeShared) -> None:
    one = make_shared()
    await one.aopen()
    one.reserve_now("a", (FULL,))
    await one.aclose()
    other = make_shared()
    await other.aopen()
    assert other.reserve_now("b", (FULL,)).refused == 0
    await other.aclose()


@pytest.mark.parametrize(
    "strategy", ["token-bucket", "sliding-window", "fixed-window", "session-window", "gauge"]
)
def test_the_arithmetic_is_that_of_the_reference(
    opened: Callable[[], SharedStore], clock: FakeClock, strategy: str
) -> None:
    stores = [opened(), opened()]
    reference = ReferenceLimits(clock)
    held: list[tuple[int, str, Hold]] = []
    for step in range(300):
        amount = step * 7 % 11 + 1
        hold = Hold("k", amount, 40, 1000.0 if strategy == "gauge" else 10.0, strategy)  # type: ignore[arg-type]
        place = step % 2
        expected = reference.reserve(f"r{step}", (hold,))
        grant = stores[place].reserve_now(f"r{step}", (hold,))
        assert (grant.refused, grant.remaining) == (expected.refused, expected.remaining)
        if grant.refused < 0:
            held.append((place, f"r{step}", hold))
        if step % 3 == 0 and held:
            place, request_id, taken = held.pop(step % len(held))
            used = (step * 5 % (taken.amount + 1),)
            reference.settle(request_id, (taken,), used)
            stores[place].settle_now(request_id, (taken,), used)
        clock.advance((step * 13 % 10) / 10 + 0.03)


async def test_more_processes_than_rows_are_refused_with_a_reason(make_shared: MakeShared) -> None:
    stores = [make_shared() for _ in range(9)]
    for store in stores[:8]:
        await store.aopen()
    with pytest.raises(StateUnavailableError, match=r"all 8 rows .* another gateway"):
        await stores[8].aopen()
    for store in stores:
        await store.aclose()


def test_more_counters_than_slots_forget_those_that_end_first(tmp_path: Path) -> None:
    table = Table(tmp_path, 2, 0.0, slots=8)
    places = []
    for number in range(8):
        place = table.find(digest_of(f"k{number}"), 1)
        table.keep_until(place, 100.0 + number)
        places.append(place)
    assert len(set(places)) == 8
    assert table.find(digest_of("new"), 1) == places[0]
    assert table.holds(places[1], digest_of("k1"), 1)
    assert not table.holds(places[0], digest_of("k0"), 1)


async def test_a_slot_that_has_gone_to_another_counter_is_left_alone(
    tmp_path: Path, clock: FakeClock
) -> None:
    context = PluginContext(plugin="memory", data_dir=tmp_path, database_url="", clock=clock)
    store = SharedStore(PluginConfig(), context, directory=tmp_path, rows=2, slots=8)
    await store.aopen()
    old = Hold("old", 5, 10, 1.0, "token-bucket")
    store.reserve_now("a", (old,))
    clock.advance(5.0)
    others = [Hold(f"k{number}", 10, 10, 60.0, "token-bucket") for number in range(8)]
    for hold in others:
        assert store.reserve_now(hold.key, (hold,)).refused < 0
    store.settle_now("a", (old,), (0,))
    again = [store.reserve_now(f"{hold.key}-again", (hold,)).refused for hold in others]
    assert again == [0] * 8
    await store.aclose()


def test_a_table_of_an_earlier_start_of_the_machine_is_emptied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = Table(tmp_path, 2, 1.0, slots=8)
    place = before.find(digest_of("k"), 1)
    before.numbers[place] = 5.0
    monkeypatch.setattr("relay_gateway.limits.table._boot", lambda: (1, 2))
    after = Table(tmp_path, 2, 2.0, slots=8)
    assert (after.offset, after.holds(place, digest_of("k"), 1)) == (2.0, False)


def test_a_table_that_is_kept_locked_is_not_done_without(opened: Callable[[], SharedStore]) -> None:
    one, other = opened(), opened()
    one.reserve_now("a", (FULL,))
    other._table.lock()  # as a process does that is stopped in the middle
    with pytest.raises(StateBusyError):
        one.reserve_now("b", (FULL,))
    with pytest.raises(StateBusyError):
        one.settle_now("a", (FULL,), (0,))
    other._table.unlock()
    one.settle_now("a", (FULL,), (0,))
    assert one.reserve_now("c", (FULL,)).refused < 0


def test_a_lease_that_has_ended_is_not_renewed(
    opened: Callable[[], SharedStore], clock: FakeClock
) -> None:
    one, other = opened(), opened()
    whole = Hold("g", 2, 2, 60.0, "gauge")
    assert one.reserve_now("a", (whole,)).refused < 0
    clock.advance(59.0)
    assert one.reserve_now("a", (whole,)).refused < 0  # renewed in time
    clock.advance(59.0)
    assert other.reserve_now("b", (whole,)).refused == 0
    clock.advance(2.0)
    one.reserve_now("a", (whole,))
    assert other.reserve_now("b", (whole,)).refused < 0
    one.settle_now("a", (whole,), (0,))
    assert one.reserve_now("c", (whole,)).refused == 0


async def test_what_is_held_survives_the_loss_of_its_slot(tmp_path: Path, clock: FakeClock) -> None:
    context = PluginContext(plugin="memory", data_dir=tmp_path, database_url="", clock=clock)
    store = SharedStore(PluginConfig(), context, directory=tmp_path, rows=2, slots=8)
    await store.aopen()
    held = Hold("held", 1, 2, 60.0, "gauge")
    for request_id in "ab":
        assert store.reserve_now(request_id, (held,)).refused < 0
    others = [Hold(f"k{number}", 1, 10, 3600.0, "token-bucket") for number in range(8)]
    store.reserve_now("others", others)
    assert store.reserve_now("c", (held,)).refused == 0
    store.reserve_now("others again", others)
    store.settle_now("a", (held,), (0,))
    assert store.reserve_now("d", (held,)).remaining == (0,)
    await store.aclose()


class TestSharedStore(StateStoreConformance):
    """What every state store promises."""

    @pytest.fixture
    def clock(self) -> FakeClock:
        return FakeClock()

    @pytest.fixture
    def make_store(self, tmp_path: Path, clock: FakeClock) -> MakeStore:
        def make() -> SharedStore:
            context = PluginContext(
                plugin="memory", data_dir=tmp_path, database_url="", clock=clock
            )
            return SharedStore(
                PluginConfig(), context, directory=tmp_path / "limits", rows=8, slots=4096
            )

        return make
