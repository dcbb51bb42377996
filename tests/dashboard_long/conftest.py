"""A browser, and a gateway whose log has very many records, for the whole run."""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from relay_gateway.testing.dashboard import Dashboard, operator_at, running_browser
from relay_gateway.testing.postgres import PostgresServer
from relay_gateway.testing.process import GatewayProcess
from relay_gateway.testing.usage_month import fill_month

RECORDS = int(os.environ.get("DASHBOARD_RECORDS", "1000000"))
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # One event loop for all: the browser and the gateways outlive a test.
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest.fixture(scope="session")
def records() -> int:
    """How many there are."""
    return RECORDS


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest) -> Iterator[str | None]:
    if request.param == "sqlite":
        yield None
        return
    with PostgresServer() as server:
        yield server.create_database()


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def gateway(
    database_url: str | None, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[GatewayProcess]:
    directory = tmp_path_factory.mktemp("gateway")
    environ = {
        "RELAY_LOG_LEVEL": "warning",
        "RELAY_ADMIN_TOKEN": "made-up-admin-token-of-forty-characters!",
        "RELAY_MASTER_KEY": base64.b64encode(secrets.token_bytes(32)).decode(),
    }
    if database_url:
        environ["RELAY_DATABASE_URL"] = database_url
    await fill_month(directory / "data", RECORDS, database_url)
    async with GatewayProcess(directory, environ) as gateway:
        yield gateway


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def newest(gateway: GatewayProcess) -> str:
    """The id of the newest record."""
    async with gateway.control() as admin:
        page = (await admin.get("/logs", params={"limit": 1})).json()
    identity: str = page["items"][0]["requestId"]
    return identity


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with running_browser() as browser:
        yield browser


@pytest_asyncio.fixture(loop_scope="session")
async def operator(browser: Browser, gateway: GatewayProcess) -> AsyncIterator[Dashboard]:
    async with operator_at(browser, gateway) as operator:
        yield operator
