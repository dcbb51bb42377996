"""What the dashboard's first steps do: ask where the inference plane is, and send it a request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from relay_gateway.testing.process import GatewayProcess


@pytest.fixture
async def gateway(tmp_path: Path) -> AsyncIterator[GatewayProcess]:
    async with GatewayProcess(tmp_path) as process:
        yield process


@pytest.fixture
async def control(gateway: GatewayProcess) -> AsyncIterator[httpx.AsyncClient]:
    async with gateway.control() as client:
        yield client


async def issued(control: httpx.AsyncClient) -> str:
    (policy,) = (await control.get("/policies")).json()["items"]
    body = {
        "metadata": {"displayName": "first"},
        "spec": {"policyId": policy["metadata"]["id"]},
    }
    plaintext: str = (await control.post("/relay-keys", json=body)).json()["plaintext"]
    return plaintext


def trial(key: str, *, stream: bool = True) -> dict[str, object]:
    messages = [{"role": "user", "content": "hello there"}]
    return {"relayKey": key, "body": {"model": "echo", "stream": stream, "messages": messages}}


async def test_a_streamed_request_goes_through_and_is_found_in_the_log(
    gateway: GatewayProcess, control: httpx.AsyncClient
) -> None:
    assert (await control.get("/inference")).json()["url"] == gateway.inference_url
    answer = await control.post("/inference/try", json=trial(await issued(control)))
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.text.rstrip().endswith("data: [DONE]")
    request_id = answer.headers["x-relay-inference-request-id"]
    for _ in range(100):
        found = await control.get(f"/logs/{request_id}")
        if found.status_code == 200:
            break
        await asyncio.sleep(0.05)
    log = found.json()["log"]
    assert (log["outcome"], log["streamed"], log["requestedModel"]) == ("ok", True, "echo")


async def test_a_refusal_is_that_of_the_inference_plane(control: httpx.AsyncClient) -> None:
    answer = await control.post("/inference/try", json=trial("sk-relay-nonsense", stream=False))
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "invalid_api_key")


@pytest.mark.parametrize("path", ["/healthz", "//127.0.0.1/v1/models", "/v1/../metrics", "v1/x"])
async def test_t01_no_other_place_can_be_asked(control: httpx.AsyncClient, path: str) -> None:
    answer = await control.post("/inference/try", json={**trial("k"), "path": path})
    assert answer.status_code in (401, 422)
    if answer.status_code == 401:
        assert answer.json()["error"]["code"] == "invalid_api_key"
