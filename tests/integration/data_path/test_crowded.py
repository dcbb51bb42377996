"""More large bodies at once than there is room for."""

from __future__ import annotations

import asyncio
from pathlib import Path

from relay_gateway.http.limits import ServerLimits
from relay_gateway.testing.big_world import large_body
from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.raw_caller import RawCaller
from relay_gateway.testing.script import response
from relay_gateway.testing.upstream import ScriptedUpstream

LIMITS = ServerLimits(
    body_memory_bytes=1024 * 1024, body_wait_seconds=0.5, linger_seconds=0.2, sweep_seconds=0.05
)
PATIENT = ServerLimits(body_memory_bytes=1024 * 1024, sweep_seconds=0.05)
BODY = large_body(3 * 1024 * 1024)
FIRST = 2 * 1024 * 1024
ANSWER = response(200, b"yes", [("content-type", "text/plain")])


async def test_r15_body_that_finds_no_room_is_refused_and_others_go_on(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(lambda _: ANSWER) as upstream,
        DataPath(tmp_path, {"m": upstream.url + "/v1"}, limits=LIMITS) as path,
        RawCaller(path.port) as eldest,
        RawCaller(path.port) as late,
        RawCaller(path.port) as small,
    ):
        before = path.holdings()
        eldest.send(path.head(len(BODY)) + BODY[:FIRST])
        await path.until_held(FIRST)
        refused = await late.ask(path.head(len(BODY)) + BODY)
        assert (refused.status, b'"overloaded"' in refused.body) == (503, True)
        assert b"retry-after: 1" in refused.head.lower()
        assert await late.is_closed()
        assert (await small.ask(path.request("m"))).body == b"yes"
        assert (await eldest.ask(BODY[FIRST:])).body == b"yes"
        await path.until(before)
    assert [len(seen.body) for seen in upstream.ledger] == [13, len(BODY)]


async def test_r15_bodies_wait_for_room_and_all_arrive(tmp_path: Path) -> None:
    async def send(path: DataPath) -> bytes:
        async with RawCaller(path.port) as caller:
            caller.send(path.head(len(BODY)) + BODY)
            return (await caller.read_answer()).body

    async with (
        ScriptedUpstream(lambda _: ANSWER) as upstream,
        DataPath(tmp_path, {"m": upstream.url + "/v1"}, limits=PATIENT) as path,
    ):
        answers = await asyncio.gather(*(send(path) for _ in range(20)))
        assert path.bodies_held == 0
    assert answers == [b"yes"] * 20
    assert {seen.body for seen in upstream.ledger} == {BODY}


async def test_r15_caller_that_leaves_gives_its_room_back(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(lambda _: ANSWER) as upstream,
        DataPath(tmp_path, {"m": upstream.url + "/v1"}, limits=PATIENT) as path,
        RawCaller(path.port) as late,
    ):
        async with RawCaller(path.port) as eldest:
            eldest.send(path.head(len(BODY)) + BODY[:FIRST])
            await path.until_held(FIRST)
            late.send(path.head(len(BODY)) + BODY)
        assert (await late.read_answer()).body == b"yes"
