"""Whole gateways with one Redis, from outside: limits they share, and what they do without it."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import httpx

from relay_gateway.limits.guarded_store import CALL_SECONDS
from relay_gateway.testing.context import master_key
from relay_gateway.testing.process import GatewayProcess
from relay_gateway_state_redis.testing.server import Protection, RedisServer

LIMIT = 10
PATIENCE_SECONDS = 20.0
PASSWORD = "canary-of-the-state-store-7Xk2"
NOISE = 1.0
"""Seconds that an answer may take besides, where other tests use the machine. Who waited for Redis
would wait for as long as that hangs."""


async def create(admin: httpx.AsyncClient, plural: str, **spec: Any) -> dict[str, Any]:
    metadata = {"displayName": f"{plural} {spec.get('rules', '')!s:.40}"}
    answer = await admin.post(f"/{plural}", json={"metadata": metadata, "spec": spec})
    assert answer.status_code == 201, answer.text
    created: dict[str, Any] = answer.json()
    return created


async def limited_key(admin: httpx.AsyncClient, policy: dict[str, Any], **rule: Any) -> str:
    """A relay key with one rule of its own; its plaintext."""
    limit = await create(
        admin,
        "rate-limits",
        rules=[{"meter": "requests", "amount": LIMIT, "windowSeconds": 86400, **rule}],
    )
    spec = {"policyId": policy["metadata"]["id"], "rateLimitIds": [limit["metadata"]["id"]]}
    created = await create(admin, "relay-keys", **spec)
    return str(created["plaintext"])


class Caller:
    """Asks the echo model and notes how long the answers took."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        self.waits: list[float] = []

    async def status(self, gateway: GatewayProcess, key: str) -> int:
        begun = time.perf_counter()
        answer = await self._client.post(
            f"{gateway.inference_url}/v1/chat/completions",
            json={"model": "echo", "messages": [{"role": "user", "content": "Hello"}]},
            headers={"authorization": f"Bearer {key}"},
        )
        self.waits.append(time.perf_counter() - begun)
        return answer.status_code

    async def until_known(self, gateway: GatewayProcess, key: str) -> int:
        """The first status that is not the one for a key that the gateway has not heard of."""
        for _ in range(500):
            status = await self.status(gateway, key)
            if status != 401:
                return status
            await asyncio.sleep(0.01)
        raise AssertionError("the gateway does not know the relay key after 5 s")


async def test_r32_two_gateways_count_together(tmp_path: Path, postgres_url: str) -> None:
    with RedisServer(Protection(PASSWORD)) as server:
        environ = {
            "RELAY_DATABASE_URL": postgres_url,
            "RELAY_ADMIN_TOKEN": "admin-token-of-both-gateways-0123456789",
            "RELAY_MASTER_KEY": master_key().reveal(),
            "RELAY_STATE_URL": f"redis://:{PASSWORD}@127.0.0.1:{server.port}",
        }
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
        async with (
            GatewayProcess(tmp_path / "a", environ) as first,
            GatewayProcess(tmp_path / "b", environ) as second,
            first.control() as admin,
            httpx.AsyncClient(trust_env=False, timeout=20) as client,
        ):
            policy = await create(admin, "policies", models=["*"])
            # Where the machine is so busy that an answer comes too late, nobody counts by himself.
            rule = {"strategy": "sliding-window", "onStateLoss": "closed"}
            key = await limited_key(admin, policy, **rule)
            caller = Caller(client)
            found = Counter([await caller.until_known(one, key) for one in (first, second)])
            calls = (caller.status(one, key) for one in (first, second) * 20)
            found.update(await asyncio.gather(*calls))
            # A store that was too slow a few times is asked again after a while only.
            asked_until = time.perf_counter() + PATIENCE_SECONDS
            while found[200] < LIMIT and time.perf_counter() < asked_until:
                found[await caller.status(second, key)] += 1
            found.update([await caller.status(one, key) for one in (first, second) * 5])
            assert found[200] == LIMIT
            assert found[429] >= 10
            assert found.keys() <= {200, 429, 503}
            shown = await first.run("config", "show")
        printed = first.stdout + first.stderr + second.stdout + second.stderr + "".join(shown[1:])
        assert PASSWORD not in printed
        counters = server.command("KEYS", "{relay}:c:*")
        assert isinstance(counters, list)
        assert len(counters) == 1


async def test_no_request_waits_for_a_redis_that_hangs(tmp_path: Path) -> None:
    with RedisServer() as server:
        async with (
            GatewayProcess(tmp_path, {"RELAY_STATE_URL": server.url}) as gateway,
            gateway.control() as admin,
            httpx.AsyncClient(trust_env=False, timeout=20) as client,
        ):
            policy = await create(admin, "policies", models=["*"])
            keys = {
                loss: await limited_key(admin, policy, onStateLoss=loss)
                for loss in ("local", "open", "closed")
            }
            caller = Caller(client)
            for key in keys.values():
                assert await caller.until_known(gateway, key) == 200
            server.freeze()
            caller.waits.clear()
            found = {
                loss: Counter([await caller.status(gateway, key) for _ in range(LIMIT + 2)])
                for loss, key in keys.items()
            }
            assert max(caller.waits) <= CALL_SECONDS + NOISE
            assert median(caller.waits) <= 2 * CALL_SECONDS, "most do not even wait for that"
            assert found["local"] == {200: LIMIT, 429: 2}, "the gateway counts for itself"
            assert found["open"] == {200: LIMIT + 2}
            assert found["closed"] == {503: LIMIT + 2}
            server.thaw()
            statuses = []
            for _ in range(300):
                statuses.append(await caller.status(gateway, keys["closed"]))
                if statuses[-1] == 200:
                    break
                await asyncio.sleep(0.02)
            assert set(statuses) == {503, 200}, "it works again by itself"
        assert gateway.stderr.count("cannot be asked") >= 1
