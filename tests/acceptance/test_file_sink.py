"""Usage records in files instead of the database: written by workers, read by the control plane."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import msgspec

from relay_gateway.testing.process import GatewayProcess

SETTINGS = """
[usage_logging]
sinks = ["file"]

[usage_sinks.file]
max_bytes = "8KiB"
"""
CALLS = 20


async def test_f29_workers_share_the_file_and_the_control_plane_reads_it(tmp_path: Path) -> None:
    (tmp_path / "relay.toml").write_text(SETTINGS)
    async with (
        GatewayProcess(tmp_path, {"RELAY_WORKERS": "2"}) as gateway,
        gateway.control() as admin,
    ):
        key = await relay_key(admin)
        asked: list[str] = []
        for count in (CALLS, 2 * CALLS):
            calls = (call(gateway.inference_url, key) for _ in range(CALLS))
            asked += await asyncio.gather(*calls)
            await until_counted(admin, count)
        found = (await admin.get("/logs?limit=1000&outcome=ok")).json()["items"]
        assert sorted(record["requestId"] for record in found) == sorted(asked)
        assert (await admin.get(f"/logs/{asked[0]}")).json()["log"]["status"] == 200
        refused = await admin.get("/logs", params={"cursor": "x"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_parameter")
    names = [path.name for path in (gateway.data_dir / "usage").glob("usage.*")]
    assert len(names) >= 2, "it has rotated"
    assert not (gateway.data_dir / "usage.sqlite3").exists()


async def test_standard_output_takes_the_records_and_logs_answer_501(tmp_path: Path) -> None:
    path = '[usage_logging]\nsinks = ["file"]\n[usage_sinks.file]\npath = "-"\n'
    (tmp_path / "relay.toml").write_text(path)
    async with GatewayProcess(tmp_path) as gateway, gateway.control() as admin:
        request_id = await call(gateway.inference_url, await relay_key(admin))
        assert (await admin.get("/logs")).status_code == 501
        await gateway.until_printed(request_id)
    (line,) = [line for line in gateway.stdout.splitlines() if line.startswith("{")]
    assert msgspec.json.decode(line)["requestId"] == request_id


async def relay_key(admin: httpx.AsyncClient) -> str:
    """A relay key for everything; its plaintext."""
    policy = await create(admin, "policies", models=["*"])
    created = await create(admin, "relay-keys", policyId=policy["metadata"]["id"])
    return str(created["plaintext"])


async def create(admin: httpx.AsyncClient, plural: str, **spec: Any) -> dict[str, Any]:
    answer = await admin.post(
        f"/{plural}", json={"metadata": {"displayName": "Everything"}, "spec": spec}
    )
    assert answer.status_code == 201, answer.text
    created: dict[str, Any] = answer.json()
    return created


async def call(url: str, key: str) -> str:
    """Asks the echo model over a connection of its own; the id of the request."""
    body = {"model": "echo", "messages": [{"role": "user", "content": "Hello"}]}
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
        for _ in range(200):  # each worker hears of the new key by itself
            answer = await client.post(f"{url}/v1/chat/completions", json=body, headers=headers)
            if answer.status_code == 200:
                return answer.headers["x-relay-request-id"]
            await asyncio.sleep(0.02)
    raise AssertionError(answer.text)


async def until_counted(admin: httpx.AsyncClient, count: int) -> None:
    """Waits until so many records of answered requests are there."""
    async with asyncio.timeout(10):
        while True:
            rows = (await admin.get("/usage/summary?outcome=ok")).json()["items"]
            if rows and rows[0]["requests"] >= count:
                assert rows[0]["tokens"]["output"] > 0
                return
            await asyncio.sleep(0.02)
