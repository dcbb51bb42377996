"""One gateway of several as far as limits go: many callers at once, in a process of its own.

Arguments: the address, the number of callers, seconds. Prints how often each strategy granted, and
the most that held the gauge at the same time.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from pydantic import SecretStr
from redis.asyncio import Redis

from relay_gateway.plugin import Hold, Strategy
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.plugin_tests import new_id
from relay_gateway_state_redis import RedisConfig, RedisStore

LIMIT = 100
HOURS = 86400.0
WHOLE: tuple[Strategy, ...] = ("sliding-window", "fixed-window", "session-window", "gauge")
"""Strategies that give nothing back within hours; each has a counter of its own."""
RENEWED = 0.5
"""The window of a sliding one that does come back while the callers ask."""


async def main(url: str, callers: int, seconds: float) -> None:
    granted: Counter[str] = Counter()
    most = 0
    store = RedisStore(RedisConfig(url=SecretStr(url)), plugin_context(Path(tempfile.gettempdir())))
    witness = Redis.from_url(url)
    await store.aopen()
    end = time.monotonic() + seconds
    held = Hold("held", 1, LIMIT, HOURS, "gauge")

    async def ask(name: str, hold: Hold) -> None:
        grant = await store.reserve(new_id(), [hold])
        granted[name] += grant.refused == -1

    async def hold_for_a_moment() -> None:
        nonlocal most
        request_id = new_id()
        if (await store.reserve(request_id, [held])).refused == -1:
            inside = await witness.incr("inside")
            most = max(most, inside)
            await witness.decr("inside")
            await store.settle(request_id, [held], [0])

    async def caller() -> None:
        while time.monotonic() < end:
            for strategy in WHOLE:
                await ask(strategy, Hold(strategy, 1, LIMIT, HOURS, strategy))
            await ask("renewed", Hold("renewed", 1, LIMIT, RENEWED, "sliding-window"))
            await hold_for_a_moment()

    await asyncio.gather(*(caller() for _ in range(callers)))
    await store.aclose()
    await witness.aclose()
    print(json.dumps({"granted": granted, "most": most}))  # noqa: T201


asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
