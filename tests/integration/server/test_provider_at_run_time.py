"""An upstream provider that was not there at the start, enabled in a gateway that serves."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from relay_gateway.testing.gateway_app import GatewayApp
from relay_gateway.testing.script import json_response

KEPT = ("log-database", "provider-openai", "secret-env", "secret-stored")
LATER = "provider-anthropic"
ANSWER = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "claude",
    "content": [{"type": "text", "text": "Hello"}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
    "usage": {"input_tokens": 3, "output_tokens": 2},
}
ASKED = {"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]}


def enabling(*names: str) -> str:
    listed = ", ".join(f'"relay-gateway-{name}"' for name in names)
    return f"[plugins]\nenabled = [{listed}]\n"


async def reload(app: GatewayApp, *names: str) -> list[dict[str, Any]]:
    """Has these plugins enabled; what each process has changed."""
    (app.directory / "relay.toml").write_text(enabling(*names), "utf-8")
    answer = await app.admin.post("/plugins/reload")
    assert answer.status_code == 200, answer.text
    processes: list[dict[str, Any]] = answer.json()["processes"]
    return processes


async def ask(app: GatewayApp, path: str) -> httpx.Response:
    """A request over a connection of its own, which any worker may get."""
    async with httpx.AsyncClient(base_url=app.url, trust_env=False) as caller:
        credential = {"authorization": f"Bearer {app.relay_key}"}
        return await caller.post(path, json=ASKED, headers=credential)


async def until_answered_by(app: GatewayApp, workers: int, path: str) -> None:
    """Waits until so many processes have answered with the upstream's words."""
    seen: set[str] = set()
    async with asyncio.timeout(20):
        while len(seen) < workers:
            app.upstream.enqueue(json_response(200, ANSWER))
            answer = await ask(app, path)
            if answer.status_code == 200:
                assert "Hello" in answer.text
                seen.add((await app.log(answer))["instance"])


@pytest.mark.parametrize("workers", [1, 2])
async def test_a_provider_is_served_and_translated_from_its_enabling_on(
    tmp_path: Path, workers: int
) -> None:
    async with AsyncExitStack() as stack:
        environ = {"RELAY_WORKERS": str(workers)}
        app = await stack.enter_async_context(GatewayApp(tmp_path, enabling(*KEPT), environ))
        assert (await ask(app, "/v1/messages")).json()["error"]["code"] == "unknown_endpoint"
        processes = await reload(app, *KEPT, LATER)
        change = {
            "kind": "upstream provider", "name": "anthropic", "change": "enabled", "error": None,
        }  # fmt: skip
        assert all(change in one["changes"] for one in processes)
        assert len(processes) == (1 if workers == 1 else 1 + workers)
        await app.serve("claude", adapter="anthropic", wire_formats=["anthropic.messages"])
        await until_answered_by(app, workers, "/v1/messages")
        await until_answered_by(app, workers, "/v1/chat/completions")
        told = [request.target for request in app.upstream.ledger]
        assert set(told) == {"/v1/messages"}


async def test_a_provider_that_is_disabled_answers_no_more_and_one_that_returns_does(
    tmp_path: Path,
) -> None:
    async with GatewayApp(tmp_path, enabling(*KEPT, LATER)) as app:
        await app.serve("claude", adapter="anthropic", wire_formats=["anthropic.messages"])
        await until_answered_by(app, 1, "/v1/chat/completions")
        await reload(app, *KEPT)
        assert (await ask(app, "/v1/messages")).json()["error"]["code"] == "unknown_endpoint"
        assert (await ask(app, "/v1/chat/completions")).status_code == 503
        await reload(app, *KEPT, LATER)
        app.upstream.enqueue(json_response(200, ANSWER), json_response(200, ANSWER))
        assert (await ask(app, "/v1/messages")).json() == ANSWER
        assert "Hello" in (await ask(app, "/v1/chat/completions")).text


async def test_requests_that_arrive_while_a_provider_is_disabled_are_answered_or_refused(
    tmp_path: Path,
) -> None:
    async with GatewayApp(tmp_path, enabling(*KEPT, LATER)) as app:
        await app.serve("claude", adapter="anthropic", wire_formats=["anthropic.messages"])
        app.upstream.enqueue(*(json_response(200, ANSWER) for _ in range(400)))
        gone = asyncio.create_task(reload(app, *KEPT))
        seen = set()
        for _ in itertools.takewhile(lambda _: not gone.done(), range(400)):
            seen.add((await ask(app, "/v1/chat/completions")).status_code)
        await gone
        assert seen <= {200, 503}
        assert (await ask(app, "/v1/chat/completions")).status_code == 503
