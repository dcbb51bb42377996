"""A fleet under load whose database is killed, stays away for a while and comes back."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Self

import httpx

from relay_gateway.testing.postgres import PostgresServer
from relay_gateway.testing.process import GatewayProcess

MODEL = "echo"
"""Answered by the gateway's own process, so that nothing but the gateway can fail."""
CALLERS = 4
PACE_SECONDS = 0.01
LOOK_SECONDS = 0.005
DELIVERED_SECONDS = 60.0
_BODY: Mapping[str, Any] = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}]}


class EchoLoad:
    """Callers of one gateway, each asking again as soon as it has its answer; ``statuses`` counts
    what they got. A connection that fails counts as status 0."""

    def __init__(self, url: str, relay_key: str) -> None:
        self.statuses: Counter[int] = Counter()
        self._client = httpx.AsyncClient(
            base_url=url, headers={"authorization": f"Bearer {relay_key}"}, trust_env=False
        )
        self._ending = asyncio.Event()
        self._callers: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._callers = [loop.create_task(self._call()) for _ in range(CALLERS)]
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._ending.set()
        await asyncio.gather(*self._callers)
        await self._client.aclose()

    async def _call(self) -> None:
        while not self._ending.is_set():
            try:
                answer = await self._client.post("/v1/chat/completions", json=_BODY)
                self.statuses[answer.status_code] += 1
            except httpx.TransportError:
                self.statuses[0] += 1
            await asyncio.sleep(PACE_SECONDS)


@dataclass(slots=True)
class OutageReport:
    """What was seen. ``lasting`` is the load of the gateway that ran all the time, ``restarted``
    that of the one that was restarted while the database was away, before and after that."""

    lasting: Counter[int] = field(default_factory=Counter)
    restarted: Counter[int] = field(default_factory=Counter)
    control: set[tuple[int, bool]] = field(default_factory=set)
    """Status and whether there was a ``Retry-After``, of reads and writes during the outage."""
    ready: set[int] = field(default_factory=set)
    restart_seconds: float = 0.0
    source: str = ""
    live_seconds: float = 0.0
    """From the return of the database until the control planes of both answered again."""
    usage: int = 0
    """How many records of the lasting gateway were there in the end."""

    def __str__(self) -> str:
        return (
            f"{self.lasting.total() + self.restarted.total()} requests, start from disk in "
            f"{self.restart_seconds:.2f} s, live {self.live_seconds:.2f} s after the return, "
            f"{self.usage} of {self.lasting.total()} usage records"
        )


class Outage:
    """Two gateways in processes of their own on one database that can be killed."""

    def __init__(self, directory: Path, server: PostgresServer, environ: Mapping[str, str]) -> None:
        self._server = server
        self._directories = [directory / name for name in ("lasting", "restarted")]
        self._environ = environ
        self.report = OutageReport()

    async def run(self, seconds: float) -> OutageReport:
        """Has the database away for ``seconds`` under load."""
        for directory in self._directories:
            directory.mkdir()
        first, second = (GatewayProcess(one, self._environ) for one in self._directories)
        async with first, second, first.control() as admin:
            keys = [await _relay_key(admin, name) for name in ("lasting", "restarted")]
            await _until_accepted(second, keys[1].plaintext)
            async with EchoLoad(first.inference_url, keys[0].plaintext) as load:
                async with EchoLoad(second.inference_url, keys[1].plaintext) as before:
                    await asyncio.to_thread(self._server.kill)
                    began = time.monotonic()
                    await self._look(admin)
                await second.stop()
                again = GatewayProcess(self._directories[1], self._environ)
                started = time.perf_counter()
                async with again:
                    self.report.restart_seconds = time.perf_counter() - started
                    await self._look_around(again, keys[1].plaintext, began + seconds, admin)
                    await self._come_back(first, again)
            self.report.lasting = load.statuses
            self.report.restarted += before.statuses
            self.report.usage = await self._delivered(admin, keys[0].id, load.statuses[200])
        return self.report

    async def _look_around(
        self, gateway: GatewayProcess, key: str, until: float, admin: httpx.AsyncClient
    ) -> None:
        """Looks at both control planes under load until it is time."""
        async with (
            EchoLoad(gateway.inference_url, key) as after,
            gateway.control() as restarted,
        ):
            ready = (await restarted.get("/readyz")).json()
            self.report.source = ready["degraded"]["catalog"]
            while time.monotonic() < until:
                await self._look(admin)
                await self._look(restarted)
                await asyncio.sleep(0.1)
        self.report.restarted += after.statuses

    async def _look(self, admin: httpx.AsyncClient) -> None:
        entity = {"metadata": {"displayName": "X"}, "spec": {}}
        for answer in (await admin.get("/hosts"), await admin.post("/providers", json=entity)):
            self.report.control.add((answer.status_code, "retry-after" in answer.headers))
        self.report.ready.add((await admin.get("/readyz")).status_code)

    async def _come_back(self, *gateways: GatewayProcess) -> None:
        await asyncio.to_thread(self._server.restart)
        returned = time.perf_counter()
        async with asyncio.timeout(30):
            for gateway in gateways:
                async with gateway.control() as admin:
                    await _until(partial(_is_live, admin))
        self.report.live_seconds = time.perf_counter() - returned

    async def _delivered(self, admin: httpx.AsyncClient, key_id: str, expected: int) -> int:
        """How many records there are, once they are all there or it takes too long."""
        deadline = time.monotonic() + DELIVERED_SECONDS
        while True:
            summary = (await admin.get("/usage/summary", params={"relayKeyId": key_id})).json()
            found = sum(item["requests"] for item in summary["items"])
            if found >= expected or time.monotonic() > deadline:
                return int(found)
            await asyncio.sleep(0.1)


@dataclass(frozen=True, slots=True)
class _Key:
    id: str
    plaintext: str


async def _relay_key(admin: httpx.AsyncClient, name: str) -> _Key:
    policy = (await admin.get("/policies")).json()["items"][0]["metadata"]["id"]
    entity = {"metadata": {"displayName": name}, "spec": {"policyId": policy}}
    answer = await admin.post("/relay-keys", json=entity)
    assert answer.status_code == 201, answer.text
    made = answer.json()
    return _Key(made["relayKey"]["metadata"]["id"], made["plaintext"])


async def _until_accepted(gateway: GatewayProcess, key: str) -> None:
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(base_url=gateway.inference_url, trust_env=False) as client:
        async with asyncio.timeout(5):
            await _until(partial(_accepts, client, headers))


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    while True:
        if await condition():
            return
        await asyncio.sleep(LOOK_SECONDS)


async def _accepts(client: httpx.AsyncClient, headers: Mapping[str, str]) -> bool:
    return (await client.get("/v1/models", headers=headers)).status_code == 200


async def _is_live(admin: httpx.AsyncClient) -> bool:
    ready = (await admin.get("/readyz")).json()
    return not ready["degraded"].get("catalog") and (await admin.get("/hosts")).status_code == 200
