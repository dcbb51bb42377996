"""Requests whose upstream connection is idle already are carried by callbacks, to every end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.raw_caller import RawCaller
from relay_gateway.testing.script import Close, Hang, Script, response
from relay_gateway.testing.upstream import ScriptedUpstream

OK = response(200, b"3:5", [("content-type", "application/json")])

pytestmark = pytest.mark.usefixtures("alone_and_together")


class Warm:
    """A data path whose connection to the upstream has carried an answer and is idle."""

    def __init__(self, path: DataPath, upstream: ScriptedUpstream, caller: RawCaller) -> None:
        self.path = path
        self.upstream = upstream
        self.caller = caller

    async def ask(self, *scripts: Script) -> tuple[int, bytes]:
        """One more request, which the upstream answers so."""
        self.upstream.enqueue(*scripts)
        answer = await self.caller.ask(self.path.request("m"))
        return answer.status, answer.body


@pytest.fixture
async def warm(tmp_path: Path) -> AsyncIterator[Warm]:
    async with (
        ScriptedUpstream() as upstream,
        DataPath(tmp_path, {"m": upstream.url + "/v1"}) as path,
        RawCaller(path.port) as caller,
    ):
        world = Warm(path, upstream, caller)
        assert (await world.ask(OK))[0] == 200
        yield world


async def test_an_answer_comes_without_a_task_of_its_own(warm: Warm) -> None:
    before = warm.path.holdings()
    tasks = asyncio.all_tasks()
    warm.upstream.enqueue([Hang()])
    warm.caller.send(warm.path.request("m"))
    await warm.upstream.wait_for_requests(2)
    named = {task.get_coro().__qualname__ for task in asyncio.all_tasks() - tasks}  # type: ignore[union-attr]
    assert not [name for name in named if name.startswith(("ServerConnection", "Pipeline"))]
    assert warm.path.holdings().handlers == before.handlers


async def test_f34_request_on_a_connection_that_just_closed_is_sent_once_more(warm: Warm) -> None:
    status, body = await warm.ask([Close()], OK)
    assert (status, body) == (200, b"3:5")
    assert len(warm.upstream.ledger) == 3
    assert [record.outcome for record in warm.path.records] == ["ok", "ok"]
    assert len(warm.path.records[1].attempts) == 1


@pytest.mark.parametrize(("status", "told"), [(500, 500), (302, 502), (401, 502), (418, 418)])
async def test_what_is_no_success_goes_on_in_a_task(warm: Warm, status: int, told: int) -> None:
    answered, _ = await warm.ask(response(status, b"{}", [("content-type", "application/json")]))
    assert answered == told
    assert warm.path.records[1].status == told
    assert (await warm.ask(OK))[0] in (200, 503)  # the only key may be benched


async def test_f43_caller_that_leaves_before_the_answer_ends_the_upstream_call(warm: Warm) -> None:
    before = warm.path.holdings()
    warm.upstream.enqueue([Hang()])
    async with RawCaller(warm.path.port) as deserter:
        deserter.send(warm.path.request("m"))
        await warm.upstream.wait_for_requests(2)
    cancellation = await warm.upstream.wait_for_cancellation()
    assert cancellation is not None
    await warm.path.until(before)
    assert warm.path.records[1].outcome == "cancelled"


async def test_f10_a_waiting_request_is_told_when_the_gateway_stops(warm: Warm) -> None:
    warm.upstream.enqueue([Hang()])
    warm.caller.send(warm.path.request("m"))
    await warm.upstream.wait_for_requests(2)
    warm.path.interrupt()
    answer = await warm.caller.read_answer()
    assert answer.status == 503
    assert b"interrupted" in answer.body
    assert warm.path.records[1].outcome == "aborted"


async def test_a_head_that_is_repeated_is_judged_by_the_current_catalog(warm: Warm) -> None:
    assert (await warm.ask(OK))[0] == 200
    warm.path.revoke_relay_key()
    assert (await warm.ask())[0] == 401


async def test_r10_a_host_to_be_tried_is_tried_although_no_connection_is_idle(warm: Warm) -> None:
    warm.path.let_be_tried()
    warm.path.close_idle_connections()
    assert await warm.ask(OK) == (200, b"3:5")
    assert warm.path.left_alone == set()
    assert warm.path.holdings().drawn_keys == 0
