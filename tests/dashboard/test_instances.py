"""Gateways on one PostgreSQL in the overview: well, killed, and behind."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest_asyncio
from playwright.async_api import Browser, Locator, expect

from relay_gateway.testing.dashboard import WAIT_SECONDS, Dashboard, operator_at
from relay_gateway.testing.instances import ADMIN_TOKEN, MASTER_KEY
from relay_gateway.testing.postgres import PostgresServer
from relay_gateway.testing.process import GatewayProcess

from .pictures import LOOKS, is_wanted, photograph

ENVIRON = {
    "RELAY_LOG_LEVEL": "warning",
    "RELAY_ADMIN_TOKEN": ADMIN_TOKEN,
    "RELAY_MASTER_KEY": MASTER_KEY,
}
NAMES = ("seen", "killed", "stopped")


@pytest_asyncio.fixture(loop_scope="session")
async def fleet(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> AsyncIterator[list[GatewayProcess]]:
    environ = {**ENVIRON, "RELAY_DATABASE_URL": postgres_url}
    async with AsyncExitStack() as stack:
        found = []
        for name in NAMES:
            (tmp_path / name).mkdir()
            gateway = GatewayProcess(tmp_path / name, environ)
            found.append(await stack.enter_async_context(gateway))
        yield found


def port_of(gateway: GatewayProcess) -> str:
    return gateway.inference_url.rpartition(":")[2]


async def listed(
    admin: httpx.AsyncClient, condition: Callable[[dict[str, dict[str, Any]]], object]
) -> None:
    """Waits until ``condition`` holds for what is listed, by port."""
    async with asyncio.timeout(60):
        while True:
            items = (await admin.get("/instances")).json()["items"]
            if condition({one["gateway"].rpartition(":")[2]: one for one in items}):
                return
            await asyncio.sleep(0.1)


def row_of(operator: Dashboard, gateway: GatewayProcess) -> Locator:
    table = operator.page.get_by_role("region", name="Processes of all gateways")
    return table.locator("tbody tr", has_text=f":{port_of(gateway)}")


def age(server: PostgresServer, url: str, gateway: GatewayProcess, seconds: int) -> None:
    """Has what a gateway said be so much older, as if that time had passed."""
    older = ", ".join(
        f"{name} = {name} - {seconds * 1000}" for name in ("seen_at", "current_at", "started_at")
    )
    server.execute(
        f"UPDATE instances SET {older} WHERE gateway LIKE '%:{port_of(gateway)}'", url=url
    )


async def photograph_all(browser: Browser, gateway: GatewayProcess) -> None:
    for look in filter(lambda look: is_wanted("instances", look), LOOKS):
        async with operator_at(browser, gateway, **LOOKS[look]) as operator:
            await operator.open("/")
            table = operator.page.get_by_role("region", name="Instances", exact=True)
            await photograph(table, "instances", look)
            health = operator.page.get_by_role("region", name="Health")
            await photograph(health, "health", look)


async def test_a_killed_gateway_is_silent_and_a_stopped_one_lags(
    browser: Browser,
    fleet: list[GatewayProcess],
    postgres_server: PostgresServer,
    postgres_url: str,
) -> None:
    seen, killed, stopped = fleet
    async with seen.control() as admin, operator_at(browser, seen) as operator:
        await listed(admin, lambda found: len(found) == len(fleet))
        await operator.open("/")
        for gateway in fleet:
            await expect(row_of(operator, gateway)).to_contain_text("ready")
            await expect(row_of(operator, gateway)).to_contain_text("up to date")
        await expect(row_of(operator, seen)).to_contain_text("this gateway")
        health = operator.page.get_by_role("region", name="Health")
        await expect(health).to_contain_text("Everything works.")

        killed.send_signal(signal.SIGKILL)
        await killed.wait(seconds=20)
        os.kill(stopped.pid, signal.SIGSTOP)
        try:
            body = {"metadata": {"displayName": "Acme"}, "spec": {}}
            assert (await admin.post("/providers", json=body)).status_code == 201
            await listed(admin, lambda found: found[port_of(seen)]["lagRevisions"] == 0)
            await asyncio.to_thread(age, postgres_server, postgres_url, killed, 60)
            await asyncio.to_thread(age, postgres_server, postgres_url, stopped, 16)
            await operator.open("/")
            await expect(row_of(operator, killed).locator(".badge.bad")).to_have_text("silent")
            await expect(row_of(operator, stopped).locator(".badge.bad")).to_have_text("lagging")
            await expect(row_of(operator, stopped)).to_contain_text(re.compile(r"1 behind for \d+"))
            await expect(row_of(operator, seen).locator(".badge.bad")).to_have_count(0)
            await expect(health).not_to_contain_text("Everything works.")
            await expect(health.locator(".notice.bad")).to_have_count(2)
            await expect(health).to_contain_text(f":{port_of(killed)} not seen since")
            await expect(health).to_contain_text(f":{port_of(stopped)} 1 revision behind for")
            await photograph_all(browser, seen)
        finally:
            os.kill(stopped.pid, signal.SIGCONT)
        await expect(row_of(operator, stopped)).to_contain_text(
            "up to date", timeout=4 * WAIT_SECONDS * 1000
        )
        assert await stopped.stop() == 0
        await expect(row_of(operator, stopped)).to_have_count(0, timeout=4 * WAIT_SECONDS * 1000)
        await expect(row_of(operator, killed)).to_have_count(1)
