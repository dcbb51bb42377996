"""Calls of plugins that misbehave while they are awaited."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.errors import (
    PluginError,
    PluginUnavailableError,
    SecretRefError,
    SecretUnavailableError,
)
from relay_gateway.plugin import Allow, Guard, GuardConfig, Plugin, PluginConfig, UsageReader
from relay_gateway.registry.calls import (
    OPEN_AFTER,
    OPEN_SECONDS,
    TERMS,
    Breaker,
    CallCounts,
    Calls,
    Terms,
)
from relay_gateway.registry.kinds import CONFIGURABLE, PluginKind
from relay_gateway.testing.context import plugin_context

LIFE = {"aopen", "aclose"}


class Reader(Plugin[PluginConfig]):
    """Answers ``get`` as it is told to."""

    name = "reader"
    outcome: object = "record"

    def __init__(self, directory: Path) -> None:
        super().__init__(PluginConfig(), plugin_context(directory))
        self.go_on = asyncio.Event()

    async def get(self, request_id: str) -> object:
        if self.outcome is None:
            await self.go_on.wait()
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome

    write = seal = get


class World:
    """A reader, its guarded calls, and what was told of them."""

    def __init__(self, directory: Path, kind: PluginKind = PluginKind.USAGE_SINK) -> None:
        self.told: list[BaseException] = []
        self.plugin: Any = Reader(directory)
        self.calls = Calls(kind, "reader", CallCounts(), self.told.append)
        self.calls.guard(self.plugin)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def is_awaited(member: object) -> bool:
    """Whether it is a method that is awaited, or, as of guards, may be a plain one."""
    answer = getattr(member, "__annotations__", {}).get("return", "")
    return inspect.iscoroutinefunction(member) or "Awaitable" in str(answer)


def test_every_method_that_is_awaited_has_terms() -> None:
    for kind in CONFIGURABLE:
        bases = [kind.base, UsageReader] if kind is PluginKind.USAGE_SINK else [kind.base]
        awaited = {
            name
            for base in bases
            for name, method in inspect.getmembers(base, is_awaited)
            if not name.startswith("_")
        }
        assert awaited - LIFE == set(TERMS[kind]), kind


async def test_calls_and_their_time_are_counted(world: World) -> None:
    assert [await world.plugin.get("1"), await world.plugin.write(())] == ["record"] * 2
    assert world.calls.counts.calls == 2
    assert 0 < world.calls.counts.seconds < 1
    assert world.calls.in_flight == 0


async def test_sys_exit_ends_a_call_and_nothing_else(world: World) -> None:
    world.plugin.outcome = SystemExit(3)
    with pytest.raises(PluginError, match=r"called sys\.exit\(3\)"):
        await world.plugin.write(())
    assert world.told == []  # who delivers records tells of it


async def test_a_failure_is_told_and_an_answer_is_not(world: World) -> None:
    world.plugin.outcome = OSError("down")
    with pytest.raises(OSError, match="down"):
        await world.plugin.get("1")
    assert [str(error) for error in world.told] == ["down"]
    world.plugin.outcome = ValueError("no such cursor")
    with pytest.raises(ValueError, match="no such cursor"):
        await world.plugin.get("1")
    assert len(world.told) == 1


async def test_what_does_not_answer_in_time_is_unavailable(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    terms = {"get": Terms(0.01, 2)}
    monkeypatch.setitem(TERMS, PluginKind.USAGE_SINK, terms)
    plugin: Any = Reader(Path())
    plugin.outcome = None
    world.calls.guard(plugin)
    with pytest.raises(PluginUnavailableError, match=r"'reader' did not answer within 0\.01 s"):
        await plugin.get("1")
    assert len(world.told) == 1


async def test_more_calls_than_may_be_under_way_are_refused_at_once(world: World) -> None:
    world.plugin.outcome = None
    at_once = TERMS[PluginKind.USAGE_SINK]["get"].at_once
    waiting = [asyncio.create_task(world.plugin.get(str(n))) for n in range(at_once)]
    await asyncio.sleep(0)
    with pytest.raises(PluginUnavailableError, match=f"has {at_once} calls to answer already"):
        await world.plugin.get("one more")
    world.plugin.outcome = "done"
    world.plugin.go_on.set()
    assert set(await asyncio.gather(*waiting)) == {"done"}
    assert await world.plugin.get("again") == "done"


async def test_a_method_that_fails_again_and_again_is_left_alone_and_others_are_not(
    world: World,
) -> None:
    world.plugin.outcome = OSError("down")
    for _ in range(OPEN_AFTER):
        with pytest.raises(OSError, match="down"):
            await world.plugin.get("1")
    with pytest.raises(PluginUnavailableError, match="left alone for a moment"):
        await world.plugin.get("1")
    world.plugin.outcome = "record"
    assert await world.plugin.write(()) == "record"


def test_a_single_call_tries_what_was_left_alone() -> None:
    breaker = Breaker()
    for _ in range(OPEN_AFTER):
        assert breaker.admits(10.0)
        breaker.failed(10.0)
    assert not breaker.admits(10.0 + OPEN_SECONDS / 2)
    assert breaker.admits(10.0 + OPEN_SECONDS)
    assert not breaker.admits(10.0 + OPEN_SECONDS)
    breaker.answered()
    assert breaker.admits(10.0 + OPEN_SECONDS)


async def test_what_a_secret_backend_raises_is_told_without_its_words(tmp_path: Path) -> None:
    world = World(tmp_path, PluginKind.SECRET_BACKEND)
    world.plugin.outcome = RuntimeError("cannot seal sk-quoted")
    with pytest.raises(RuntimeError):
        await world.plugin.seal("1")
    world.plugin.outcome = SecretRefError("the value is missing", field="value")
    with pytest.raises(SecretRefError):
        await world.plugin.seal("1")
    assert [str(error) for error in world.told] == ["raised RuntimeError"]


async def test_a_secret_backend_that_is_left_alone_is_one_that_cannot_be_asked(
    tmp_path: Path,
) -> None:
    world = World(tmp_path, PluginKind.SECRET_BACKEND)
    world.plugin.outcome = SecretUnavailableError("down")
    for _ in range(OPEN_AFTER):
        with pytest.raises(SecretUnavailableError, match="down"):
            await world.plugin.seal("1")
    with pytest.raises(SecretUnavailableError, match="left alone"):
        await world.plugin.seal("1")


async def test_calls_that_do_not_end_do_not_hold_up_the_end(world: World) -> None:
    world.plugin.outcome = None
    call = asyncio.create_task(world.plugin.write(()))
    await asyncio.sleep(0)
    assert not await world.calls.drained(0.01)
    world.plugin.go_on.set()
    assert await world.calls.drained(5)
    await call


class Inspector(Guard[GuardConfig]):
    """One inspection is a plain function, the other takes as long as the test says."""

    name = "inspector"
    deadline = 30.0
    go_on: asyncio.Event

    def inspect_request(self, request: Any, who: Any) -> Allow:
        return Allow()

    async def inspect_response(self, response: Any, who: Any) -> Allow:
        await self.go_on.wait()
        return Allow()


def inspector(directory: Path, told: list[BaseException], **section: Any) -> Any:
    made = Inspector(GuardConfig(**section), plugin_context(directory))
    made.go_on = asyncio.Event()
    Calls(PluginKind.GUARD, "inspector", CallCounts(), told.append).guard(made)
    return made


async def test_a_guard_may_judge_in_a_plain_function(tmp_path: Path) -> None:
    assert await inspector(tmp_path, []).inspect_request(None, None) == Allow()


async def test_a_guard_has_the_time_that_its_section_says(tmp_path: Path) -> None:
    told: list[BaseException] = []
    made = inspector(tmp_path, told, deadline_seconds=0.01)
    with pytest.raises(PluginUnavailableError, match=r"'inspector' did not answer within 0\.01 s"):
        await made.inspect_response(None, None)
    assert len(told) == 1


async def test_a_guard_has_the_time_that_it_declares_where_its_section_says_nothing(
    tmp_path: Path,
) -> None:
    made = inspector(tmp_path, [])
    judging = asyncio.create_task(made.inspect_response(None, None))
    await asyncio.sleep(0)
    made.go_on.set()
    assert (made.seconds, await judging) == (30.0, Allow())
