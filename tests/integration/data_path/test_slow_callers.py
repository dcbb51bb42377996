"""Slow callers of three kinds at once: all are cut off in time, and honest ones do not notice."""

from __future__ import annotations

import asyncio
from pathlib import Path

from relay_gateway.http.limits import ServerLimits
from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.script import LAST_CHUNK, Script, Send, chunk, head, response
from relay_gateway.testing.slow_callers import ask_honestly, dribble, percentile, stall
from relay_gateway.testing.upstream import ScriptedUpstream

EACH = 100
PLAIN = [("content-type", "text/plain")]
LIMITS = ServerLimits(
    header_seconds=1.0,
    body_grace_seconds=1.0,
    write_stall_seconds=1.0,
    linger_seconds=0.5,
    sweep_seconds=0.05,
)
MOST = 6.0
LARGE = [
    Send(head(200, [("content-type", "text/event-stream")])),
    *[Send(chunk(b"data: %b\n\n" % (b"x" * 65_536)))] * 128,
    Send(LAST_CHUNK),
]


def answer(request: SeenRequest) -> Script:
    return LARGE if b'"stream":true' in request.body else response(200, b"hello", PLAIN)


async def test_t27_slow_callers_are_cut_off_and_honest_ones_do_not_notice(tmp_path: Path) -> None:
    async with (
        ScriptedUpstream(answer) as upstream,
        DataPath(tmp_path, {"m": upstream.url + "/v1"}, limits=LIMITS) as path,
    ):
        before = path.holdings()
        done = asyncio.Event()
        honest = asyncio.ensure_future(ask_honestly(path.port, path.request("m"), done))
        field, body = b"GET / HTTP/1.1\r\nHost: a\r\nX: ", path.head(100_000)
        heads = [dribble(path.port, field, b"a", every=0.1, most=MOST) for _ in range(EACH)]
        bodies = [dribble(path.port, body, b"a", every=0.1, most=MOST) for _ in range(EACH)]
        stream = path.request("m", stream=True)
        readers = [stall(path.port, stream, most=MOST) for _ in range(EACH)]
        reaped = await asyncio.gather(*heads, *bodies, *readers)
        done.set()
        latencies = await honest
        await path.until(before)
    assert {one.told[:12] for one in reaped[: 2 * EACH]} == {b"HTTP/1.1 408"}
    assert {one.told[:12] for one in reaped[2 * EACH :]} == {b"HTTP/1.1 200"}
    assert min(one.seconds for one in reaped) > 0.8
    assert len(latencies) > 100
    # All attackers begin at one moment and in this loop, which the slowest few may meet.
    assert percentile(latencies, 90) < 0.5
