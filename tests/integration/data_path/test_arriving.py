"""Requests whose body comes in pieces wait for it without a task."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.raw_caller import RawCaller
from relay_gateway.testing.script import response
from relay_gateway.testing.upstream import ScriptedUpstream

OK = response(200, b"3:5", [("content-type", "application/json")])

pytestmark = pytest.mark.usefixtures("alone_and_together")


@dataclass(frozen=True, slots=True)
class Halfway:
    """A data path, and a caller who has sent the first half of a request."""

    path: DataPath
    upstream: ScriptedUpstream
    caller: RawCaller
    rest: bytes

    async def until_begun(self) -> None:
        await self.path.until_begun(1)


@pytest.fixture
async def halfway(tmp_path: Path) -> AsyncIterator[Halfway]:
    async with (
        ScriptedUpstream() as upstream,
        DataPath(tmp_path, {"m": upstream.url + "/v1"}) as path,
        RawCaller(path.port) as caller,
    ):
        whole = path.request("m")
        caller.send(whole[:-5])
        world = Halfway(path, upstream, caller, whole[-5:])
        await world.until_begun()
        yield world


async def test_a_body_is_waited_for_without_a_task(halfway: Halfway) -> None:
    named = {task.get_coro().__qualname__ for task in asyncio.all_tasks()}  # type: ignore[union-attr]
    assert not [name for name in named if name.startswith(("ServerConnection", "Pipeline"))]
    assert halfway.upstream.ledger == []
    halfway.upstream.enqueue(OK)
    answer = await halfway.caller.ask(halfway.rest)
    assert (answer.status, answer.body) == (200, b"3:5")
    assert (await halfway.path.until_recorded()).outcome == "ok"


async def test_what_follows_the_body_is_the_next_request(halfway: Halfway) -> None:
    halfway.upstream.enqueue(OK, OK)
    halfway.caller.send(halfway.rest + halfway.path.request("m"))
    assert [(await halfway.caller.read_answer()).status for _ in range(2)] == [200, 200]


async def test_f43_caller_that_leaves_in_its_body_is_recorded_and_nobody_is_asked(
    halfway: Halfway,
) -> None:
    halfway.caller.writer.transport.abort()
    assert (await halfway.path.until_recorded()).outcome == "cancelled"
    assert halfway.upstream.ledger == []
    assert halfway.path.holdings().drawn_keys == 0


async def test_f10_a_gateway_that_stops_tells_a_caller_in_its_body(halfway: Halfway) -> None:
    halfway.path.interrupt()
    answer = await halfway.caller.read_answer()
    assert (answer.status, b"interrupted" in answer.body) == (503, True)
    assert (await halfway.path.until_recorded()).outcome == "aborted"
    halfway.caller.send(halfway.rest)
    assert halfway.upstream.ledger == []


async def test_who_may_not_ask_is_told_before_the_body_has_come(halfway: Halfway) -> None:
    head = halfway.path.head(100).replace(halfway.path.relay_key.encode(), b"sk-wrong")
    async with RawCaller(halfway.path.port) as stranger:
        answer = await stranger.ask(head + b'{"model":')
    assert answer.status == 401


async def test_the_key_is_looked_at_once(halfway: Halfway) -> None:
    """It was accepted when the request began."""
    halfway.path.revoke_relay_key()
    halfway.upstream.enqueue(OK)
    assert (await halfway.caller.ask(halfway.rest)).status == 200


async def test_f33_broken_chunks_are_refused_in_the_callers_format(halfway: Halfway) -> None:
    head = halfway.path.head(0).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    async with RawCaller(halfway.path.port) as other:
        other.send(head + b'5\r\n{"mod')
        await halfway.path.until_begun(2)
        answer = await other.ask(b"XX\r\n")
    assert (answer.status, b'"error"' in answer.body) == (400, True)
