"""Four gateways and one Redis: the limits are those of one."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import Any

from relay_gateway_state_redis.testing.server import RedisServer

PROGRAM = Path(__file__).parent / "programs" / "callers.py"
INSTANCES, CALLERS, SECONDS = 4, 50, 1.5
LIMIT, RENEWED = 100, 0.5


async def instance(url: str) -> dict[str, Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(PROGRAM),
        url,
        str(CALLERS),
        str(SECONDS),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, err.decode()
    told: dict[str, Any] = json.loads(out)
    return told


async def test_r32_four_processes_with_200_callers_never_exceed_a_limit(
    server: RedisServer,
) -> None:
    begun = time.monotonic()
    told = await asyncio.gather(*(instance(server.url) for _ in range(INSTANCES)))
    elapsed = time.monotonic() - begun
    granted = {name: sum(one["granted"][name] for one in told) for name in told[0]["granted"]}
    renewed = granted.pop("renewed")
    assert granted == dict.fromkeys(granted, LIMIT), "each of them exactly, and not one more"
    assert len(granted) == 4
    most = max(one["most"] for one in told)
    assert 0 < most <= LIMIT, "more requests were under way than the gauge allows"
    windows = elapsed / RENEWED + 1
    assert LIMIT < renewed <= LIMIT * windows, "a sliding window comes back, and not too early"
    left = server.command("ZCARD", "{relay}:g:held")
    assert left == 0, "all that was held is given back"
