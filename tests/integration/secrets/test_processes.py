"""Secrets in the processes of a gateway: in memory, in no environment, in no dump; told of by
each process, and put back to use in all of them."""

from __future__ import annotations

import asyncio
import base64
import os
import secrets
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from relay_gateway.testing.canary import Canary
from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.scenario import Scenario, running_scenario
from relay_gateway.testing.script import Script, json_response

WORKERS = 2
VARIABLE = "ACME_API_KEY"
WELL_KNOWN = "OPENAI_API_KEY"


class Upstream:
    """Takes any credential, or none, and says which one came."""

    def __init__(self) -> None:
        self.takes = True

    def __call__(self, request: SeenRequest) -> Script:
        message = {"message": f"bad key: {request.header('authorization')}"}
        return json_response(200, {}) if self.takes else json_response(401, {"error": message})


class Gateway:
    """A gateway with two workers, and a host key from a variable."""

    def __init__(self, scenario: Scenario, upstream: Upstream, relay_key: str, key: str) -> None:
        self.scenario = scenario
        self.upstream = upstream
        self._relay_key = relay_key
        self._url = f"/host-keys/by-id/{key}"

    async def status(self) -> dict[str, Any]:
        return _state_in(await self.scenario.admin.get(f"{self._url}/status"))

    async def reset(self) -> dict[str, Any]:
        return _state_in(await self.scenario.admin.post(f"{self._url}/reset"))

    async def ask(self) -> httpx.Response:
        """One request, on a connection of its own."""
        url = f"{self.scenario.gateway.inference_url}/v1/chat/completions"
        headers = {"Authorization": f"Bearer {self._relay_key}"}
        body = {"model": "acme", "messages": []}
        async with httpx.AsyncClient(trust_env=False) as client:
            return await client.post(url, json=body, headers=headers)

    async def ask_until(self, state: str) -> dict[str, Any]:
        """Asks until all workers have resolved the key and say so of it."""
        async with asyncio.timeout(20):
            while True:
                await asyncio.gather(*(self.ask() for _ in range(8)))
                status = await self.status()
                processes = status["processes"]
                resolved = all(one.get("resolved") for one in processes)
                if resolved and [one["state"] for one in processes] == [state] * WORKERS:
                    return status


def _state_in(answer: httpx.Response) -> dict[str, Any]:
    state: dict[str, Any] = answer.json()["status"]
    return state


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[Gateway]:
    canary = Canary()
    environ = {
        "RELAY_WORKERS": str(WORKERS),
        "RELAY_ADMIN_TOKEN": canary.secret("admin token"),
        "RELAY_MASTER_KEY": canary.adopt(
            "master key", base64.b64encode(secrets.token_bytes(32)).decode()
        ),
        VARIABLE: canary.secret("host key", prefix="sk-"),
        WELL_KNOWN: canary.secret("well-known", prefix="sk-"),
    }
    upstream = Upstream()
    async with running_scenario(tmp_path, upstream, environ, canary) as scenario:
        provider = await scenario.create("providers", "Acme")
        url = f"{scenario.upstream.url}/v1"
        host = await scenario.create("hosts", "Acme", baseUrl=url, adapter="openai")
        bindings = [{"hostId": host}]
        await scenario.create("models", "M", name="acme", providerId=provider, bindings=bindings)
        policy = await scenario.create("policies", "All", models=["*"])
        value = {"kind": "env", "env": VARIABLE}
        key = await scenario.create(
            "host-keys", "Acme", hostId=host, policyId=policy, valueFrom=value
        )
        relay_key = await scenario.relay_key("app", policy)
        yield Gateway(scenario, upstream, relay_key, key)


def environment_of(pid: int) -> bytes:
    """What can be read of the environment of a process; nothing where that is refused."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except PermissionError:
        return b""


async def test_t12_secrets_are_in_memory_and_nowhere_else(gateway: Gateway) -> None:
    process = gateway.scenario.gateway
    await gateway.ask_until("available")
    pids = [process.pid, *process.children()]
    assert len(pids) == WORKERS + 2
    canary = gateway.scenario.canary
    for pid in pids:
        environment = environment_of(pid)
        assert not environment or b"RELAY_DATA_DIR=" in environment
        found = {hit.canary for hit in canary.find(environment, "environment")}
        # Only who resolves a host key knows that its variable is one.
        assert found <= ({"host key"} if pid not in process.children()[:WORKERS] else set())
        assert "Max core file size        0 " in Path(f"/proc/{pid}/limits").read_text("ascii")
    os.kill(process.children()[0], signal.SIGABRT)
    await gateway.ask_until("available")
    assert not [path for path in process.directory.rglob("*core*") if path.is_file()]
    await gateway.scenario.sweep()
    assert "killed by SIGABRT" in process.stderr


async def test_each_process_tells_of_a_key_and_a_reset_reaches_all(gateway: Gateway) -> None:
    fresh = await gateway.status()
    assert (fresh["state"], fresh["resolved"]) == ("available", False)
    assert [one["process"] for one in fresh["processes"]] == ["worker-1", "worker-2"]
    status = await gateway.ask_until("available")
    assert (status["backend"], status["lastError"]) == ("env", None)

    gateway.upstream.takes = False
    status = await gateway.ask_until("benched")
    assert status["state"] == "benched"
    assert status["reason"] == "refused by the upstream, and 'env' has no other value"
    assert all(one["resolved"] for one in status["processes"])
    assert 0 < status["refreshSeconds"] <= 60
    refused = await gateway.ask()
    assert refused.status_code == 503
    listed = (await gateway.scenario.admin.get("/host-keys?q=acme")).json()["items"]
    assert [item["status"]["state"] for item in listed] == ["benched"]

    gateway.upstream.takes = True
    status = await gateway.reset()
    assert [one["state"] for one in status["processes"]] == ["available"] * WORKERS
    assert (await gateway.ask()).status_code == 200
    await gateway.scenario.sweep(refused.text)


async def test_a_worker_that_does_not_answer_is_unknown_and_holds_up_nobody_for_long(
    gateway: Gateway,
) -> None:
    worker = gateway.scenario.gateway.children()[1]
    os.kill(worker, signal.SIGSTOP)
    try:
        async with asyncio.timeout(5):
            for _ in range(20):
                status = await gateway.status()
    finally:
        os.kill(worker, signal.SIGCONT)
    assert [one["state"] for one in status["processes"]] == ["available", "unknown"]
    assert status["state"] == "available"
