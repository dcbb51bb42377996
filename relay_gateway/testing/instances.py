"""Whole gateways in one process, without sockets, on any database."""

from __future__ import annotations

import asyncio
import base64
import os
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx

from relay_gateway.control import create_control_app
from relay_gateway.registry import Registry
from relay_gateway.server.gateway import Gateway
from relay_gateway.server.opening import open_gateway
from relay_gateway.server.plugin_instances import configure_plugins
from relay_gateway.server.preparation import prepare
from relay_gateway.settings import Settings
from relay_gateway.testing.callers import FakeCaller

ADMIN_TOKEN = "the-admin-token-of-the-tests"  # noqa: S105 - made up
MASTER_KEY = base64.b64encode(os.urandom(32)).decode()


class Instances:
    """Opens gateways; all are closed at the end, the last one first."""

    def __init__(self, directory: Path, registry: Registry) -> None:
        self.directory = directory
        self._registry = registry
        self._stack = AsyncExitStack()

    async def open(self, url: str, name: str = "one", **settings: Any) -> Gateway:
        """A gateway with its own data directory; the same ``name`` finds what is there."""
        directory = self.directory / name
        directory.mkdir(exist_ok=True)
        values: dict[str, Any] = {
            "data_dir": directory,
            "database_url": url,
            "master_key": MASTER_KEY,
            "admin_token": ADMIN_TOKEN,
            "usage_logging": {"sinks": ()},
            **settings,
        }
        given = Settings(**values)
        plugins = configure_plugins(given, self._registry, {})
        prepared = await prepare(given, self._registry, plugins, {})
        return await self._stack.enter_async_context(
            open_gateway(given, plugins, self._registry.seeds, prepared=prepared)
        )

    async def close(self) -> None:
        """Closes all that are open."""
        await self._stack.aclose()


async def until(condition: Callable[[], object], *, seconds: float = 10.0) -> float:
    """Waits until ``condition`` holds, for at most ``seconds``; returns how long it took."""
    began = time.perf_counter()
    async with asyncio.timeout(seconds):
        while True:
            if condition():
                return time.perf_counter() - began
            await asyncio.sleep(0.001)


def control_of(gateway: Gateway) -> httpx.AsyncClient:
    """A client of a gateway's control plane with the admin's credential."""
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(create_control_app(gateway.control_services())),
        base_url="http://127.0.0.1",
        headers={"authorization": f"Bearer {ADMIN_TOKEN}"},
    )


async def ask(gateway: Gateway, key: str, path: str = "/v1/models") -> FakeCaller:
    """What a gateway answers a caller with this relay key."""
    caller = FakeCaller("GET", path, headers=[(b"Authorization", b"Bearer " + key.encode())])
    work = gateway.plane.handle(caller)
    if work is not None:
        await work
    await caller.wait_for_end()
    return caller
