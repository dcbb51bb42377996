"""Gateways on one PostgreSQL in the overview: well, killed, and behind."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest_asyncio
from playwright.async_api import Browser, Locator, expect

from relay_gateway.testing.dashboard import WAIT_SECONDS, Dashboard, operator_at
from relay_gateway.testing.instances import ADMIN_TOKEN, MASTER_KEY
from relay_gateway.testing.life_signs import Listed, listed_when
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


def by_port(items: Listed) -> dict[str, dict[str, Any]]:
    return {one["gateway"].rpartition(":")[2]: one for one in items}


def row_of(operator: Dashboard, gateway: GatewayProcess) -> Locator:
    table = operator.page.get_by_role("region", name="Processes of all gateways")
    return table.locator("tbody tr", has_text=f":{port_of(gateway)}")


def age(server: PostgresServer, url: str, gateway: GatewayProcess, **seconds: int) -> None:
    """Has times of a gateway be so much longer ago."""
    older = ", ".join(f"{name} = {name} - {more * 1000}" for name, more in seconds.items())
    where = f"gateway LIKE '%:{port_of(gateway)}'"
    server.execute(f"UPDATE instances SET {older} WHERE {where}", url=url)


async def pass_time(
    server: PostgresServer, url: str, killed: GatewayProcess, stopped: GatewayProcess
) -> None:
    """Has both be what they are for more than a minute; the stopped one stays heard of for as long
    as the test takes, as one that lives and builds no snapshot."""
    long = {"current_at": 75, "started_at": 4000}
    await asyncio.to_thread(age, server, url, killed, seen_at=75, **long)
    await asyncio.to_thread(age, server, url, stopped, seen_at=-600, **long)


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
        await listed_when(admin, lambda found: len(found) == len(fleet))
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
            await listed_when(
                admin, lambda found: by_port(found)[port_of(seen)]["lagRevisions"] == 0
            )
            await pass_time(postgres_server, postgres_url, killed, stopped)
            await operator.open("/")
            await expect(row_of(operator, killed).locator(".badge.bad")).to_have_text("silent")
            await expect(row_of(operator, stopped).locator(".badge.bad")).to_have_text("lagging")
            await expect(row_of(operator, stopped)).to_contain_text("1 behind for 1 min")
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
