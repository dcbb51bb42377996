from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from relay_gateway.pipeline.carrier import Interruptible
from relay_gateway.pipeline.waiting import Waiting
from relay_gateway.testing.world import PipelineWorld, json_answer


class Steps:
    """Notes which steps are taken, and takes none."""

    def __init__(self) -> None:
        self.taken: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return lambda *_: self.taken.append(name)


class Wait:
    """A request that waits for its answer."""

    def __init__(self, world: PipelineWorld) -> None:
        self.steps = Steps()
        self.caller = world.caller()
        self.running: set[Interruptible] = set()
        self.exchange = cast("Any", json_answer())
        self.exchange.error = self.exchange.on_head = None
        opening: Any = SimpleNamespace(exchange=self.exchange)
        call, plan = world.call(self.caller), cast("Any", None)
        steps = cast("Any", self.steps)
        self.waiting = Waiting(steps, self.running, call, self.caller, plan, opening)
        self.waiting.begin()

    def arrive(self) -> None:
        self.exchange.on_head()


@pytest.fixture
def wait(world: PipelineWorld) -> Wait:
    return Wait(world)


async def test_an_answer_that_arrived_is_delivered_when_its_turn_comes(wait: Wait) -> None:
    wait.arrive()
    assert (wait.steps.taken, len(wait.running)) == (["headed"], 1)
    wait.waiting.go_on()
    assert (wait.steps.taken, len(wait.running)) == (["headed", "answered"], 0)


async def test_f43_a_caller_that_leaves_after_the_answer_arrived_does_not_get_it(
    wait: Wait,
) -> None:
    wait.arrive()
    wait.caller.disconnect()
    wait.waiting.go_on()
    assert wait.steps.taken == ["headed", "caller_gone"]


async def test_f10_a_gateway_that_stops_after_the_answer_arrived_says_so_once(wait: Wait) -> None:
    wait.arrive()
    wait.waiting.interrupt()
    wait.waiting.go_on()
    assert wait.steps.taken == ["headed", "interrupted"]
