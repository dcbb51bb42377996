"""A state store never holds a request up, whatever becomes of it."""

from __future__ import annotations

import asyncio
import logging

import pytest

from relay_gateway.errors import StateUnavailableError
from relay_gateway.limits import guarded_store
from relay_gateway.limits.breaker import FAILURES, PAUSE_SECONDS
from relay_gateway.limits.guarded_store import (
    CALL_SECONDS,
    MAX_LINGERING,
    MAX_SETTLING,
    GuardedStore,
)
from relay_gateway.plugin import Hold
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.waiting_store import WaitingStore

HOLD = Hold("k", 1, 1, 60.0, "gauge")
PATIENCE = 60.0


@pytest.fixture
async def waiting(clock: FakeClock) -> WaitingStore:
    return WaitingStore(clock)


@pytest.fixture
async def guarded(waiting: WaitingStore, clock: FakeClock) -> GuardedStore:
    return GuardedStore(waiting, clock)


async def fail(guarded: GuardedStore, times: int = FAILURES) -> None:
    for number in range(times):
        with pytest.raises(StateUnavailableError):
            await guarded.reserve(f"failing-{number}", (HOLD,))


async def test_an_answer_passes(guarded: GuardedStore) -> None:
    assert (await guarded.reserve("a", (HOLD,))).refused < 0
    assert (await guarded.reserve("b", (HOLD,))).refused == 0
    guarded.settle("a", (HOLD,), (0,))
    await guarded.aclose()
    assert (await guarded.reserve("c", (HOLD,))).refused < 0


async def test_no_request_waits_longer_than_its_deadline(
    guarded: GuardedStore, waiting: WaitingStore
) -> None:
    waiting.mood = "hangs"
    began = asyncio.get_running_loop().time()
    with pytest.raises(StateUnavailableError):
        await guarded.reserve("a", (HOLD,))
    assert CALL_SECONDS * 0.9 <= asyncio.get_running_loop().time() - began < 1.0
    waiting.released.set()
    await guarded.aclose()


async def test_a_late_answer_is_given_back(guarded: GuardedStore, waiting: WaitingStore) -> None:
    waiting.mood = "hangs"
    with pytest.raises(StateUnavailableError):
        await guarded.reserve("a", (HOLD,))
    assert waiting.memory.reserve_now("probe", (HOLD,)).refused == 0
    waiting.mood = "answers"
    waiting.released.set()
    await guarded.aclose()
    assert waiting.memory.reserve_now("probe", (HOLD,)).refused < 0


async def test_a_claim_whose_answer_was_lost_is_given_back_by_a_caller_that_leaves(
    guarded: GuardedStore, waiting: WaitingStore
) -> None:
    waiting.mood = "hangs"
    task = asyncio.create_task(guarded.reserve("a", (HOLD,)))
    await waiting.asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    waiting.mood = "answers"
    waiting.released.set()
    await guarded.aclose()
    assert waiting.memory.reserve_now("probe", (HOLD,)).refused < 0


async def test_a_store_that_fails_is_left_alone_and_probed_by_one(
    guarded: GuardedStore, waiting: WaitingStore, clock: FakeClock
) -> None:
    waiting.mood = "fails"
    await fail(guarded)
    calls = waiting.calls
    await fail(guarded, 10)
    assert (waiting.calls, guarded.is_lost) == (calls, True)
    clock.advance(PAUSE_SECONDS)
    waiting.mood = "hangs"
    waiting.asked.clear()
    probe = asyncio.create_task(guarded.reserve("probe", (HOLD,)))
    await waiting.asked.wait()
    await fail(guarded, 10)
    assert waiting.calls == calls + 1
    waiting.released.set()
    assert (await probe).refused < 0
    assert not guarded.is_lost


async def test_a_failed_probe_begins_the_pause_anew(
    guarded: GuardedStore, waiting: WaitingStore, clock: FakeClock
) -> None:
    waiting.mood = "fails"
    await fail(guarded)
    clock.advance(PAUSE_SECONDS)
    await fail(guarded, 1)
    calls = waiting.calls
    await fail(guarded, 1)
    clock.advance(PAUSE_SECONDS)
    waiting.mood = "answers"
    assert (await guarded.reserve("a", (HOLD,))).refused < 0
    assert waiting.calls == calls + 1


async def test_a_probe_whose_caller_leaves_does_not_close_the_way_for_ever(
    guarded: GuardedStore, waiting: WaitingStore, clock: FakeClock
) -> None:
    waiting.mood = "fails"
    await fail(guarded)
    clock.advance(PAUSE_SECONDS)
    waiting.mood = "hangs"
    waiting.asked.clear()
    probe = asyncio.create_task(guarded.reserve("probe", (HOLD,)))
    await waiting.asked.wait()
    probe.cancel()
    with pytest.raises(asyncio.CancelledError):
        await probe
    clock.advance(PAUSE_SECONDS)
    waiting.mood = "answers"
    waiting.released.set()
    assert (await guarded.reserve("a", (Hold("other", 1, 1, 60.0, "gauge"),))).refused < 0


async def test_each_change_of_state_is_one_line(
    guarded: GuardedStore,
    waiting: WaitingStore,
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "relay_gateway.limits.guarded_store")
    waiting.mood = "fails"
    await fail(guarded, 50)
    clock.advance(PAUSE_SECONDS)
    waiting.mood = "answers"
    for number in range(10):
        await guarded.reserve(f"a{number}", (HOLD,))
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]
    assert "ConnectionError: the store is gone" in caplog.text
    assert "answers again after 1.0 s" in caplog.text


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take longer for many calls than one call may take."""
    monkeypatch.setattr(guarded_store, "CALL_SECONDS", PATIENCE)
    monkeypatch.setattr(guarded_store, "LINGER_SECONDS", PATIENCE)


@pytest.mark.usefixtures("patient")
async def test_t38_more_settlements_than_there_may_be_calls_are_all_made(
    guarded: GuardedStore, waiting: WaitingStore
) -> None:
    number = 2 * MAX_LINGERING
    slot = (Hold("slots", 1, number, 600.0, "gauge"),)
    for one in range(number):
        assert waiting.memory.reserve_now(f"r{one}", slot).refused < 0
    for one in range(number):
        guarded.settle(f"r{one}", slot, (0,))
    # Those who come meanwhile are not turned away.
    assert (await guarded.reserve("other", (HOLD,))).refused < 0
    await guarded.aclose()
    assert waiting.memory.reserve_now("probe", slot).remaining == (number - 1,)


@pytest.mark.usefixtures("patient")
async def test_settlements_that_follow_are_made_after_others_have_failed(
    waiting: WaitingStore, clock: FakeClock
) -> None:
    failures = []

    def answer_again(_store: str, error: BaseException) -> None:
        failures.append(error)
        waiting.mood = "answers"

    guarded = GuardedStore(waiting, clock, answer_again)
    number = 2 * MAX_SETTLING
    slot = (Hold("slots", 1, number, 600.0, "gauge"),)
    for one in range(number):
        assert waiting.memory.reserve_now(f"r{one}", slot).refused < 0
    waiting.mood = "fails"
    for one in range(number):
        guarded.settle(f"r{one}", slot, (0,))
    await guarded.aclose()
    assert 1 <= len(failures) <= MAX_SETTLING
    probe = waiting.memory.reserve_now("probe", slot)
    assert probe.remaining == (number - len(failures) - 1,)
