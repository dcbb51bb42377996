"""A browser for the whole run, and a gateway with its echo provider for each module."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from relay_gateway.testing.dashboard import (
    WAIT_SECONDS,
    Dashboard,
    operator_at,
    running_browser,
)
from relay_gateway.testing.process import GatewayProcess

HERE = Path(__file__).parent
ENVIRON = {"RELAY_LOG_LEVEL": "warning", "ACME_API_KEY": "sk-acme-not-real"}

expect.set_options(timeout=WAIT_SECONDS * 1000)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # One event loop for all: the browser and the gateways outlive a test.
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with running_browser() as browser:
        yield browser


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def gateway(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[GatewayProcess]:
    async with GatewayProcess(tmp_path_factory.mktemp("gateway"), ENVIRON) as gateway:
        yield gateway


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def admin(gateway: GatewayProcess) -> AsyncIterator[httpx.AsyncClient]:
    async with gateway.control() as client:
        yield client


@pytest_asyncio.fixture(loop_scope="session")
async def operator(browser: Browser, gateway: GatewayProcess) -> AsyncIterator[Dashboard]:
    async with operator_at(browser, gateway) as operator:
        yield operator
