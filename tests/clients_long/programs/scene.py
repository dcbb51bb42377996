"""What the programs of this directory share; they run beside their clients, without the gateway."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

URL = os.environ["GATEWAY_URL"]
KEY = os.environ["GATEWAY_KEY"]
MODELS = os.environ["GATEWAY_MODELS"].split(",")
PIXEL = os.environ["PIXEL"]
PICTURE = f"data:image/png;base64,{PIXEL}"

Scenario = Callable[[str], Any]

# Clients keep connections, and connections belong to a loop.
run = asyncio.Runner().run


async def leave(pieces: AsyncIterator[Any]) -> str:
    """Cancels whoever reads ``pieces``, once there is one."""
    begun = asyncio.Event()

    async def read() -> None:
        async for _ in pieces:
            begun.set()

    reading = asyncio.ensure_future(read())
    async with asyncio.timeout(20):
        await begun.wait()
        # Again and again: wait_for() of Python 3.11 loses a cancellation that meets a piece.
        while not reading.done():
            reading.cancel()
            await asyncio.wait({reading}, timeout=0.1)
    return "cancelled" if reading.cancelled() else repr(reading)


def report(client: str, model: str, scenario: str, work: Scenario) -> None:
    """Prints what one scenario gave; the test that runs the program judges it."""
    told: dict[str, Any] = {"client": client, "model": model, "scenario": scenario}
    try:
        told["value"] = work(model)
    except Exception as error:  # noqa: BLE001 - which one it is, is what the test wants to know
        told |= {"error": type(error).__name__, "message": str(error)[:300]}
    print(json.dumps(told), flush=True)  # noqa: T201 - the report


def for_each_model(client: str, scenarios: Mapping[str, Scenario]) -> None:
    """Runs every scenario for every model."""
    for model in MODELS:
        for name, scenario in scenarios.items():
            report(client, model, name, scenario)
