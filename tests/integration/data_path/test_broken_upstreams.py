"""Upstreams that break off, close or hang, through the whole gateway."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from pathlib import Path

import pytest

from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.raw_caller import RawAnswer, RawCaller
from relay_gateway.testing.script import (
    Close,
    Hang,
    Reset,
    Script,
    chunk,
    cut,
    json_response,
    response,
    size,
    sse_event,
    sse_response,
)
from relay_gateway.testing.upstream import ScriptedUpstream

EVENTS = [sse_event(f"word {number}") for number in range(39)] + [sse_event("end")]
STREAM = b"".join(EVENTS)
SCRIPT = sse_response(EVENTS)
NONCE = re.compile(rb'"nonce":"(\d+)"')


def mirror(request: SeenRequest) -> Script:
    """Says the nonce of the request back."""
    found = NONCE.search(request.body)
    assert found is not None
    return response(200, found[1], [("content-type", "text/plain")])


async def ask(path: DataPath, *, withhold: bool) -> RawAnswer:
    option = "" if withhold else ',"stream_options":{"include_usage":true}'
    async with RawCaller(path.port) as caller:
        answer = await caller.ask(path.request("m", stream=True, extra=option))
        assert answer.complete or await caller.is_closed()
        return answer


@pytest.mark.parametrize("withhold", [False, True])
@pytest.mark.parametrize("ending", [Close(), Reset()])
async def test_f35_stream_cut_at_any_byte_never_ends_cleanly(
    tmp_path: Path, ending: Close | Reset, withhold: bool
) -> None:
    # A caller is told that there is an answer when the first event has come, and no sooner.
    begun = size(SCRIPT[:1]) + chunk(EVENTS[0]).index(EVENTS[0]) + len(EVENTS[0])
    async with (
        ScriptedUpstream() as upstream,
        DataPath(tmp_path, {"m": upstream.url + "/v1"}) as path,
    ):
        before = path.holdings()
        broken = 0
        for at in range(size(SCRIPT)):
            upstream.enqueue(cut(SCRIPT, at, ending))
            path.forget_failures()
            answer = await ask(path, withhold=withhold)
            if at < begun:
                assert (answer.status, answer.complete) == (502, True)
                continue
            if answer.status == 502:  # the reset overtook the first event
                assert isinstance(ending, Reset)
                continue
            assert (answer.status, answer.complete) == (200, False)
            sent, _, error = answer.body.rpartition(b"\n\ndata: ")
            assert STREAM.startswith(sent)
            assert json.loads(error)["error"]["code"] == "upstream_closed"
            broken += 1
        await path.until(before)
    assert broken > size(SCRIPT) / 2
    assert {record.outcome for record in path.records} == {"upstream_error", "aborted"}
    assert len(path.records) == size(SCRIPT)


async def test_f35_whole_stream_ends_cleanly(tmp_path: Path) -> None:
    """What the cut streams are held against."""
    async with (
        ScriptedUpstream(lambda _: SCRIPT) as upstream,
        DataPath(tmp_path, {"m": upstream.url + "/v1"}) as path,
    ):
        for withhold in (False, True):
            path.forget_failures()
            answer = await ask(path, withhold=withhold)
            assert (answer.status, answer.body, answer.complete) == (200, STREAM, True)


async def test_f34_upstream_that_closes_idle_connections_at_random_is_not_noticed(
    tmp_path: Path,
) -> None:
    pick = random.Random(34)

    def closing(request: SeenRequest) -> Script:
        if request.ordinal > 1 and pick.random() < 0.3:
            return [pick.choice((Close(), Reset()))]  # the request met the close
        return [*mirror(request), *([Close()] if pick.random() < 0.3 else [])]

    async with (
        ScriptedUpstream(closing) as upstream,
        DataPath(tmp_path, {"m": upstream.url + "/v1"}) as path,
        RawCaller(path.port) as caller,
    ):
        for nonce in range(400):
            answer = await caller.ask(path.request("m", extra=f',"nonce":"{nonce}"'))
            assert (answer.status, answer.body) == (200, b"%d" % nonce)
        seen = Counter(NONCE.findall(b"\n".join(request.body for request in upstream.ledger)))
    assert set(seen.values()) == {1, 2}
    assert {len(record.attempts) for record in path.records} == {1}


async def test_f33_request_that_a_fresh_connection_took_is_not_sent_twice(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(lambda _: [Reset()]) as upstream,
        DataPath(tmp_path, {"m": upstream.url + "/v1"}) as path,
        RawCaller(path.port) as caller,
    ):
        answer = await caller.ask(path.request("m"))
        assert answer.status == 502
        assert len(upstream.ledger) == 1


async def test_f53_host_that_hangs_does_not_hold_up_another(tmp_path: Path) -> None:
    async def ask_slow(path: DataPath) -> tuple[int, float]:
        began = asyncio.get_running_loop().time()
        async with RawCaller(path.port) as caller:
            status = (await caller.ask(path.request("slow"))).status
        return status, asyncio.get_running_loop().time() - began

    async with (
        ScriptedUpstream(lambda _: [Hang()]) as hung,
        ScriptedUpstream(mirror) as quick,
        DataPath(
            tmp_path, {"slow": hung.url + "/v1", "quick": quick.url + "/v1"}, maxConnections=8
        ) as path,
    ):
        holding = [asyncio.ensure_future(ask_slow(path)) for _ in range(8)]
        await hung.wait_for_requests(8)
        waiting = [asyncio.ensure_future(ask_slow(path)) for _ in range(100)]
        latencies: list[float] = []
        async with RawCaller(path.port) as caller:
            while not all(one.done() for one in waiting):
                began = asyncio.get_running_loop().time()
                answer = await caller.ask(path.request("quick", extra=',"nonce":"7"'))
                assert (answer.status, answer.body) == (200, b"7")
                latencies.append(asyncio.get_running_loop().time() - began)
        for status, seconds in await asyncio.gather(*waiting):
            assert (status, seconds < 2.0) == (503, True)
        for one in holding:
            one.cancel()
        await asyncio.gather(*holding, return_exceptions=True)
    latencies.sort()
    assert len(latencies) > 50
    assert latencies[len(latencies) * 95 // 100] < 0.1


async def test_f49_answer_with_something_behind_it_does_not_reach_the_next_caller(
    tmp_path: Path,
) -> None:
    stray = json_response(200, "stray")

    def trailing(request: SeenRequest) -> Script:
        return [*mirror(request), *stray]

    async with (
        ScriptedUpstream(trailing) as upstream,
        DataPath(tmp_path, {"m": upstream.url + "/v1"}) as path,
        RawCaller(path.port) as caller,
    ):
        for nonce in range(100):
            answer = await caller.ask(path.request("m", extra=f',"nonce":"{nonce}"'))
            assert (answer.status, answer.body) == (200, b"%d" % nonce)
