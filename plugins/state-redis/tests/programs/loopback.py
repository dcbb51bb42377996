"""What three limits cost with a Redis on the same machine: the figures of the README.

Run it with ``python plugins/state-redis/tests/programs/loopback.py``.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from pydantic import SecretStr

from relay_gateway.plugin import Hold
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.plugin_tests import new_id
from relay_gateway_state_redis import RedisConfig, RedisStore
from relay_gateway_state_redis.testing.server import RedisServer

HOLDS = [
    Hold("requests", 1, 10**9, 60.0, "sliding-window"),
    Hold("tokens", 500, 10**12, 60.0, "token-bucket"),
    Hold("concurrency", 1, 10**9, 60.0, "gauge"),
]
USED = (1, 400, 0)
ROUNDS, AT_ONCE = 2000, 200


async def measure(name: str, count: int, call: Callable[[], Awaitable[None]]) -> None:
    """Prints the time and the processor time per request."""
    await call()
    begun, spent = time.perf_counter(), time.process_time()
    await call()
    elapsed, used = time.perf_counter() - begun, time.process_time() - spent
    micro = 1e6 / count
    print(f"{name}: {elapsed * micro:.0f} µs, of which {used * micro:.0f} µs in the gateway")  # noqa: T201


async def main(server: RedisServer) -> None:
    config = RedisConfig(url=SecretStr(server.url))
    store = RedisStore(config, plugin_context(Path(tempfile.gettempdir())))
    await store.aopen()

    async def request() -> None:
        request_id = new_id()
        await store.reserve(request_id, HOLDS)
        await store.settle(request_id, HOLDS, USED)

    async def one_by_one() -> None:
        for _ in range(ROUNDS):
            await request()

    async def at_once() -> None:
        for _ in range(ROUNDS // AT_ONCE):
            await asyncio.gather(*(request() for _ in range(AT_ONCE)))

    await measure("one after the other", ROUNDS, one_by_one)
    await measure(f"{AT_ONCE} at once", ROUNDS, at_once)
    server.command("CONFIG", "RESETSTAT")
    await one_by_one()
    statistics = server.command("INFO", "commandstats")
    assert isinstance(statistics, bytes)
    (line,) = [one for one in statistics.decode().splitlines() if "evalsha" in one]
    print(f"in Redis: {line}")  # noqa: T201
    await store.aclose()


if __name__ == "__main__":
    with RedisServer() as running:
        asyncio.run(main(running))
