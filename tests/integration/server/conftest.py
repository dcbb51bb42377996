"""Gateways in processes of their own, on data of the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from relay_gateway.testing.held import Held, running_held


@pytest.fixture
async def serving(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[Held]]]:
    """Starts a gateway with so many workers and these settings."""
    async with AsyncExitStack() as stack:

        async def start(workers: int, **settings: str) -> Held:
            environ = {f"RELAY_{name.upper()}": value for name, value in settings.items()}
            environ["RELAY_WORKERS"] = str(workers)
            return await stack.enter_async_context(running_held(tmp_path, "openai", environ))

        yield start
