from __future__ import annotations

import asyncio
import time
from typing import Any, cast

import pytest

from relay_gateway.pipeline.turn import AT_ONCE, FEW, Turn


class Log:
    """A turn, and what it handed over, portion by portion."""

    def __init__(self) -> None:
        self.handed: list[tuple[str, list[Any]]] = []
        self.turn: Turn[Any] = Turn(
            lambda batch: self.handed.append(("begin", [call for call, _ in batch])),
            lambda batch: self.handed.append(("answer", batch)),
        )

    def request(self, name: str) -> None:
        self.turn.add_request(cast("Any", name), cast("Any", None))


async def test_what_is_gathered_is_handed_over_at_the_end_of_the_turn_answers_first() -> None:
    log = Log()
    log.request("a")
    log.turn.add_answer("b")
    log.request("c")
    assert (log.handed, log.turn.waiting) == ([], 2)
    await asyncio.sleep(0)
    assert log.handed == [("answer", ["b"]), ("begin", ["a", "c"])]
    await asyncio.sleep(0)
    assert len(log.handed) == 2


async def test_many_are_handed_over_in_portions() -> None:
    log = Log()
    for number in range(2 * AT_ONCE + 1):
        log.request(str(number))
    log.turn.end()
    sizes = [len(batch) for _, batch in log.handed]
    assert sizes == [AT_ONCE, AT_ONCE, 1]
    await asyncio.sleep(0)
    assert len(log.handed) == 3


async def test_a_portion_that_fails_does_not_take_the_others_with_it() -> None:
    handed: list[int] = []

    def fail(batch: list[Any]) -> None:
        handed.append(len(batch))
        raise RuntimeError("broken")

    turn: Turn[Any] = Turn(fail, fail)
    for number in range(AT_ONCE + 1):
        turn.add_request(cast("Any", number), cast("Any", None))
        turn.add_answer(number)
    turn.end()
    assert handed == [AT_ONCE, 1, AT_ONCE, 1]


async def test_only_what_does_not_come_alone_is_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    turn = Log().turn
    assert not turn.gathers(FEW), "the first comes alone"
    now += 0.0001
    assert turn.gathers(FEW)
    now += 0.01
    assert not turn.gathers(FEW)


async def test_nothing_is_gathered_while_few_requests_are_under_way() -> None:
    turn = Log().turn
    turn.gathers(FEW)
    assert not turn.gathers(FEW - 1)
    assert turn.gathers(FEW)


async def test_what_follows_something_gathered_is_gathered(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 10.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    log = Log()
    log.request("a")
    now += 1.0
    assert log.turn.gathers(FEW)
    await asyncio.sleep(0)
    now += 1.0
    assert not log.turn.gathers(FEW)
