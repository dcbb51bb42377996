"""A gateway that writes its usage to S3, with credentials from a secret backend."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx

from relay_gateway.testing.process import GatewayProcess

Objects = Callable[[], Awaitable[dict[str, bytes]]]


async def test_r1_records_are_in_the_bucket_when_the_gateway_has_ended(
    tmp_path: Path, objects: Objects, store: Any, bucket: str
) -> None:
    (tmp_path / "relay.toml").write_text(
        '[usage_logging]\nsinks = ["s3"]\n'
        f'[usage_sinks.s3]\nbucket = "{bucket}"\nregion = "eu-central-1"\npath_style = true\n'
        f'endpoint_url = "{store.url}"\n'
        'value_from = { kind = "env", env = "LAKE_CREDENTIALS" }\n'
    )
    environ = {"LAKE_CREDENTIALS": json.dumps(store.keys["writer"])}
    async with GatewayProcess(tmp_path, environ) as gateway, gateway.control() as admin:
        policy = await _create(admin, "policies", models=["*"])
        key = await _create(admin, "relay-keys", policyId=policy["metadata"]["id"])
        asked = {await _call(gateway.inference_url, key["plaintext"]) for _ in range(5)}
        assert await objects() == {}, "they wait for others to be in one object with"
        refused = await admin.get("/logs")
        assert (refused.status_code, refused.json()["error"]["code"]) == (501, "usage_not_readable")
    lines = [
        json.loads(line) for lines in (await objects()).values() for line in lines.splitlines()
    ]
    assert {line["requestId"] for line in lines} == asked
    assert len(lines) == len(asked)
    assert store.keys["writer"]["secretAccessKey"] not in gateway.stdout + gateway.stderr


async def _create(admin: httpx.AsyncClient, plural: str, **spec: Any) -> dict[str, Any]:
    document = {"metadata": {"displayName": "Everything"}, "spec": spec}
    answer = await admin.post(f"/{plural}", json=document)
    assert answer.status_code == 201, answer.text
    created: dict[str, Any] = answer.json()
    return created


async def _call(url: str, key: str) -> str:
    """Asks the echo model; the id of the request."""
    body = {"model": "echo", "messages": [{"role": "user", "content": "Hello"}]}
    headers = {"authorization": f"Bearer {key}"}
    async with httpx.AsyncClient(trust_env=False, timeout=20) as client:
        answer = await client.post(f"{url}/v1/chat/completions", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    return str(answer.headers["x-relay-request-id"])
