"""The limits that operators set are those of the running gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay_gateway.testing.big_world import large_body
from relay_gateway.testing.raw_caller import RawCaller
from relay_gateway.testing.scenario import running_scenario
from relay_gateway.testing.script import json_response

ENVIRON = {"RELAY_BODY_MEMORY_BYTES": "1MiB", "RELAY_MAX_CONNECTIONS_PER_ADDRESS": "4"}
BODY = large_body(16 * 1024 * 1024)
FIRST = 2 * 1024 * 1024
LATE_SECONDS = 0.5
"""How long the late body is given to be answered too early; without a limit it needs a tenth."""


class LimitedWorld:
    """A gateway with little room and the model ``m``; ``heads`` are of requests for it."""

    def __init__(self, port: int, relay_key: str) -> None:
        self.port = port
        self.head = (
            "POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(BODY)}\r\nAuthorization: Bearer {relay_key}\r\n\r\n"
        ).encode()


@pytest.fixture
async def limited(tmp_path: Path) -> AsyncIterator[LimitedWorld]:
    async with running_scenario(tmp_path, lambda _: json_response(200, {}), ENVIRON) as scenario:
        provider = await scenario.create("providers", "Acme")
        url = f"{scenario.upstream.url}/v1"
        host = await scenario.create("hosts", "H", baseUrl=url, adapter="openai", noAuth=True)
        await scenario.create(
            "models", "M", name="m", providerId=provider, bindings=[{"hostId": host}]
        )
        policy = await scenario.create("policies", "All", models=["*"])
        port = int(scenario.gateway.inference_url.rpartition(":")[2])
        yield LimitedWorld(port, await scenario.relay_key("app", policy))


async def test_r15_bodies_wait_where_the_operator_gave_them_little_room(
    limited: LimitedWorld,
) -> None:
    async with RawCaller(limited.port) as eldest, RawCaller(limited.port) as late:
        eldest.send(limited.head + BODY[:FIRST])
        await eldest.writer.drain()
        late.send(limited.head + BODY)
        answer = asyncio.ensure_future(late.read_answer())
        await asyncio.wait([answer], timeout=LATE_SECONDS)
        assert not answer.done()
        assert (await eldest.ask(BODY[FIRST:])).status == 200
        assert (await answer).status == 200


async def test_t27_connections_of_one_address_are_as_many_as_the_operator_allows(
    limited: LimitedWorld,
) -> None:
    ready = b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"
    async with (
        RawCaller(limited.port) as one,
        RawCaller(limited.port) as two,
        RawCaller(limited.port) as three,
        RawCaller(limited.port) as four,
        RawCaller(limited.port) as five,
    ):
        inside = [await caller.ask(ready) for caller in (one, two, three, four)]
        assert [answer.status for answer in inside] == [200] * 4
        assert (await five.ask(ready)).status == 429
