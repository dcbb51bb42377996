"""Plugins reconfigured in a gateway that serves, in one process and in several."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from relay_gateway.testing.process import GatewayProcess

SINKS = '[usage_logging]\nsinks = ["file"]\n\n[usage_sinks.file]\npath = "{path}"\n'
STREAK = 20


class Reloaded:
    """A gateway that writes usage into a file of the test's choice."""

    def __init__(self, directory: Path, gateway: GatewayProcess, admin: httpx.AsyncClient) -> None:
        self.directory = directory
        self.gateway = gateway
        self.admin = admin

    def configure(self, text: str) -> None:
        """Writes ``relay.toml``."""
        (self.directory / "relay.toml").write_text(text, "utf-8")

    def write_to(self, name: str) -> None:
        """Has ``relay.toml`` say that usage goes to this file."""
        self.configure(SINKS.format(path=self.directory / name))

    async def ask(self) -> str:
        """A request that is refused, which is recorded too; its id."""
        async with httpx.AsyncClient(trust_env=False) as caller:
            url = f"{self.gateway.inference_url}/v1/chat/completions"
            answer = await caller.post(url, json={"model": "m"}, headers={"x-api-key": "sk-no"})
        assert answer.status_code == 401
        return answer.headers["x-relay-request-id"]

    def recorded(self, name: str) -> set[str]:
        """The ids of the requests in a file."""
        path = self.directory / name
        lines = path.read_text("utf-8").splitlines() if path.exists() else []
        return {json.loads(line)["requestId"] for line in lines}

    async def sink(self) -> dict[str, Any]:
        """What the control plane shows of the file sink."""
        items = (await self.admin.get("/plugins")).json()["items"]
        (found,) = [one for one in items if (one["kind"], one["name"]) == ("usage sink", "file")]
        return dict(found)


@pytest.fixture
async def serving(tmp_path: Path) -> AsyncIterator[Callable[[int], Awaitable[Reloaded]]]:
    """Starts a gateway with so many workers."""
    async with AsyncExitStack() as stack:

        async def start(workers: int) -> Reloaded:
            (tmp_path / "relay.toml").write_text(SINKS.format(path=tmp_path / "one.jsonl"), "utf-8")
            environ = {"RELAY_WORKERS": str(workers), "RELAY_LOG_LEVEL": "info"}
            gateway = await stack.enter_async_context(GatewayProcess(tmp_path, environ))
            admin = await stack.enter_async_context(gateway.control())
            return Reloaded(tmp_path, gateway, admin)

        yield start


Serving = Callable[[int], Awaitable[Reloaded]]
ONE_AND_SEVERAL = pytest.mark.parametrize("workers", [1, 2])


@ONE_AND_SEVERAL
async def test_a_sink_is_reconfigured_and_no_record_is_lost(serving: Serving, workers: int) -> None:
    reloaded = await serving(workers)
    before = {await reloaded.ask() for _ in range(STREAK)}
    reloaded.write_to("two.jsonl")
    answer = await reloaded.admin.post("/plugins/reload")
    assert answer.status_code == 200, answer.text
    processes = answer.json()["processes"]
    change = {"kind": "usage sink", "name": "file", "change": "reconfigured", "error": None}
    assert {json.dumps(one["changes"]) for one in processes} == {json.dumps([change])}
    names = {one["process"] for one in processes}
    assert names in ({"gateway"}, {"control", "worker-1", "worker-2"})
    assert (await reloaded.sink())["config"]["path"].endswith("two.jsonl")
    (record,) = (await reloaded.admin.get("/audit?action=reload")).json()["items"]
    assert record["kind"] == "plugins"
    assert [one["name"] for one in record["detail"]["processes"][0]["changes"]] == ["file"]
    after = {await reloaded.ask() for _ in range(STREAK)}
    assert await reloaded.gateway.stop() == 0
    assert before | after == reloaded.recorded("one.jsonl") | reloaded.recorded("two.jsonl")
    assert after <= reloaded.recorded("two.jsonl")


async def test_what_is_not_valid_changes_nothing_and_the_list_shows_what_is_in_force(
    serving: Serving,
) -> None:
    reloaded = await serving(2)
    reloaded.configure('[usage_sinks.file]\npaht = "x"\n\n[secret_backends.nobody]\nurl = "y"\n')
    answer = await reloaded.admin.post("/plugins/reload")
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["code"] == "invalid_configuration"
    assert "[usage_sinks.file] paht: unknown key" in error["message"]
    assert "[secret_backends.nobody]" in error["message"]
    sink = await reloaded.sink()
    assert sink["config"]["path"].endswith("one.jsonl")
    assert "path" in sink["configSchema"]["properties"]
    ids = {await reloaded.ask() for _ in range(STREAK)}
    async with asyncio.timeout(10):
        while ids != reloaded.recorded("one.jsonl") or not sink["metrics"]["calls"]:
            sink = await reloaded.sink()
    assert sink["metrics"]["errors"] == 0
    assert sink["metrics"]["seconds"] > 0


@ONE_AND_SEVERAL
async def test_sighup_reloads_every_process(serving: Serving, workers: int) -> None:
    reloaded = await serving(workers)
    reloaded.write_to("two.jsonl")
    os.kill(reloaded.gateway.pid, signal.SIGHUP)
    async with asyncio.timeout(10):
        while not (await reloaded.sink())["config"]["path"].endswith("two.jsonl"):
            pass
        while not reloaded.recorded("two.jsonl"):
            await reloaded.ask()
    assert await reloaded.gateway.stop() == 0
    assert "the configuration of plugins is reloaded: 1 changes" in reloaded.gateway.stderr


async def test_what_waits_for_a_sink_that_is_not_there_is_delivered_once_it_is(
    serving: Serving,
) -> None:
    reloaded = await serving(1)
    # A directory cannot be written to.
    (reloaded.directory / "late.jsonl").mkdir()
    reloaded.write_to("late.jsonl")
    assert await reloaded.gateway.stop() == 0
    await reloaded.gateway.start()
    waiting = {await reloaded.ask() for _ in range(STREAK)}
    await reloaded.gateway.kill()
    (reloaded.directory / "late.jsonl").rmdir()
    sink = f'[usage_sinks.file]\npath = "{reloaded.directory / "late.jsonl"}"\n'
    without = (
        '[usage_logging]\nsinks = []\n\n[plugins]\nenabled = ["relay-gateway-log-database"]\n\n'
    )
    reloaded.configure(without)
    await reloaded.gateway.start()
    async with reloaded.gateway.control() as admin:
        ready = (await admin.get("/readyz")).json()
        assert "what was left for it stays in the spool" in ready["degraded"]["usage sink file"]
        reloaded.configure(without.replace('"]', '", "relay-gateway-log-file"]') + sink)
        answer = await admin.post("/plugins/reload")
        assert answer.status_code == 200, answer.text
        async with asyncio.timeout(10):
            while "usage sink file" in ready["degraded"]:
                ready = (await admin.get("/readyz")).json()
    assert reloaded.recorded("late.jsonl") == waiting
