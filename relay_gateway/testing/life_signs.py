"""Signs of life of gateways: one to begin with, time that passes for it, and who is listed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
from sqlalchemy import update
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.storage import LifeSign
from relay_gateway.storage.engine import writing
from relay_gateway.storage.tables import instances

SIGN = LifeSign(
    gateway_id="gateway-a",
    process="worker-1",
    gateway="host:8080",
    instance="host:17",
    version="1.2.3",
    state="ready",
    degraded={},
    revision=0,
    age=100.0,
    applied_age=40.0,
)
Listed = list[dict[str, Any]]
PAUSE_SECONDS = 0.02


async def pass_time(engine: AsyncEngine, gateway_id: str, seconds: int) -> None:
    """Has all that was heard of a gateway be so much longer ago."""
    times = ("seen_at", "started_at", "applied_at", "current_at")
    async with writing(engine) as connection:
        await connection.execute(
            update(instances)
            .where(instances.c.gateway_id == gateway_id)
            .values({name: instances.c[name] - seconds * 1000 for name in times})
        )


async def listed(admin: httpx.AsyncClient) -> Listed:
    """The items of ``GET /instances``. Raises ``AssertionError`` for another answer than 200."""
    answer = await admin.get("/instances")
    assert answer.status_code == 200, answer.text
    items: Listed = answer.json()["items"]
    return items


async def listed_when(
    admin: httpx.AsyncClient, condition: Callable[[Listed], object], *, seconds: float = 60.0
) -> Listed:
    """The items as soon as ``condition`` holds for them. Raises ``TimeoutError``."""
    async with asyncio.timeout(seconds):
        while True:
            items = await listed(admin)
            if condition(items):
                return items
            await asyncio.sleep(PAUSE_SECONDS)
