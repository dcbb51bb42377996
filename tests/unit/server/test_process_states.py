"""What processes say of a host is put together, and an order reaches all of them."""

from __future__ import annotations

import msgspec

from relay_gateway.observe.series import Series
from relay_gateway.server.letterbox import Answering, Letterbox
from relay_gateway.server.process_states import ProcessStates
from relay_gateway.server.questions import Question, ResetHost, State, TellHosts


class Process:
    """A gateway as far as it is asked for states."""

    def __init__(self, host: State) -> None:
        self.host = host
        self.reset: list[str] = []

    def series(self) -> list[Series]:
        return []

    def host_key_state(self, key_id: str) -> State:
        raise AssertionError(key_id)

    def reset_host_key(self, key_id: str) -> None:
        raise AssertionError(key_id)

    def host_state(self, host_id: str) -> State:
        return self.host

    def reset_host(self, host_id: str) -> None:
        self.reset.append(host_id)

    def answer(self, letter: bytes) -> bytes:
        question: Question = msgspec.msgpack.decode(letter, type=Question)
        if isinstance(question, ResetHost):
            self.reset_host(question.id)
            return b""
        assert isinstance(question, TellHosts)
        return msgspec.msgpack.encode([self.host_state(one) for one in question.ids])


WELL: State = {"state": "available", "reason": None, "secondsLeft": None, "ejections": 0}
EJECTED: State = {"state": "ejected", "reason": "status 500", "secondsLeft": 9.5, "ejections": 2}


async def test_a_process_alone_speaks_for_itself() -> None:
    own = Process(EJECTED)
    states = ProcessStates(own)
    shown = (await states.hosts(["h"]))["h"]
    assert shown == {**EJECTED, "processes": [{"process": "gateway", **EJECTED}]}
    await states.reset_host("h")
    assert own.reset == ["h"]


async def test_workers_that_differ_are_told_apart_and_all_reset() -> None:
    own, workers = Process(WELL), [Process(WELL), Process(EJECTED)]
    boxes = [Letterbox.make() for _ in workers]
    answering = [
        Answering(box.answering, worker.answer) for box, worker in zip(boxes, workers, strict=True)
    ]
    for one in answering:
        one.start()
    try:
        states = ProcessStates(own, boxes)
        shown = (await states.hosts(["h"]))["h"]
        assert (shown["state"], shown["reason"]) == ("partly-ejected", "status 500")
        assert (shown["secondsLeft"], shown["ejections"]) == (9.5, 2)
        assert [one["state"] for one in shown["processes"]] == ["available", "ejected"]
        await states.reset_host("h")
    finally:
        for one in answering:
            await one.aclose()
        for box in boxes:
            box.asking.close()
            box.answering.close()
    assert [one.reset for one in (own, *workers)] == [["h"], ["h"], ["h"]]
