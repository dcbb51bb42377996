"""``relay-gateway usage`` and ``tail`` beside a running gateway."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from relay_gateway.testing.process import GatewayProcess

PATIENCE = 20.0


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    async with GatewayProcess(tmp_path, {"RELAY_LOG_LEVEL": "warning"}) as process:
        yield process


@pytest.fixture
async def client(gateway: GatewayProcess) -> AsyncIterator[httpx.AsyncClient]:
    code, out, err = await gateway.run("keys", "create", "my-app", "--json")
    assert code == 0, err
    headers = {"authorization": f"Bearer {json.loads(out)['plaintext']}"}
    async with httpx.AsyncClient(
        base_url=gateway.inference_url, headers=headers, trust_env=False
    ) as found:
        yield found


async def ask(client: httpx.AsyncClient, model: str = "echo") -> str:
    body = {"model": model, "messages": [{"role": "user", "content": "one two"}]}
    answer = await client.post("/v1/chat/completions", json=body)
    return answer.headers["x-relay-request-id"]


async def totals(gateway: GatewayProcess, *arguments: str) -> list[dict[str, object]]:
    code, out, err = await gateway.run("usage", "--json", *arguments)
    assert code == 0, err
    found: list[dict[str, object]] = json.loads(out)
    return found


async def test_totals_are_those_of_the_requests(
    gateway: GatewayProcess, client: httpx.AsyncClient
) -> None:
    for _ in range(3):
        await ask(client)
    for _ in range(50):
        rows = await totals(gateway, "--by", "relayKey")
        if rows and rows[0]["requests"] == 3:
            break
    assert [row["requests"] for row in rows] == [3]
    code, out, _ = await gateway.run("usage", "--by", "relayKey,outcome")
    assert code == 0
    assert "my-app" in out
    code, _, err = await gateway.run("usage", "--by", "colour")
    assert code == 2
    assert "'colour' is no dimension" in err


async def test_tail_begins_with_the_last_and_follows(
    gateway: GatewayProcess, client: httpx.AsyncClient
) -> None:
    before = [await ask(client) for _ in range(3)]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "relay_gateway.cli.main",
        "tail",
        "--last",
        "2",
        cwd=gateway.directory,
        env=gateway.environ,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(PATIENCE):
            lines = [(await process.stdout.readline()).decode() for _ in range(2)]
            assert [line.split()[-1] for line in lines] == before[-2:]
            later = await ask(client, "none")
            line = (await process.stdout.readline()).decode()
    finally:
        process.kill()
        await process.wait()
    assert line.split()[-1] == later
    assert "model_not_found" in line
