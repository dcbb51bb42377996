"""A gateway under load whose host key is rotated in its store, again and again."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.scenario import Scenario, running_scenario
from relay_gateway.testing.script import Script, json_response

CALLERS = 4
BETWEEN = 20
"""How many requests are answered between two rotations."""
MODEL = "rotated"
_ANSWER: Mapping[str, Any] = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": MODEL,
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hello there"},
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 12, "completion_tokens": 4, "total_tokens": 16},
}
_REFUSAL: Mapping[str, Any] = {"error": {"message": "Incorrect API key", "type": "invalid_request"}}


@dataclass(slots=True)
class OneCredential:
    """An upstream that takes ``newest`` and nothing else; ``refused`` counts other credentials."""

    newest: str = ""
    refused: int = 0

    def __call__(self, request: SeenRequest) -> Script:
        """The answer to a request."""
        if request.header("authorization") == f"Bearer {self.newest}":
            return json_response(200, _ANSWER)
        self.refused += 1
        return json_response(401, _REFUSAL)


@dataclass(slots=True)
class Load:
    """Callers who ask again as soon as they are answered; ``statuses`` counts what they got."""

    url: str
    relay_key: str
    statuses: Counter[int] = field(default_factory=Counter)
    _ending: bool = False
    _answered: asyncio.Event = field(default_factory=asyncio.Event)

    async def call(self) -> None:
        """One caller, until the end."""
        headers = {"authorization": f"Bearer {self.relay_key}"}
        body = {"model": MODEL, "messages": [{"role": "user", "content": "Hello"}]}
        async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=30) as client:
            while not self._ending:
                answer = await client.post(f"{self.url}/v1/chat/completions", json=body)
                self.statuses[answer.status_code] += 1
                self._answered.set()

    async def until_more(self, count: int) -> None:
        """Waits for ``count`` further answers."""
        wanted = self.statuses.total() + count
        while self.statuses.total() < wanted:
            self._answered.clear()
            await self._answered.wait()

    def end(self) -> None:
        """Lets every caller go after its answer."""
        self._ending = True


async def rotate_under_load(
    directory: Path,
    environ: Mapping[str, str],
    value_from: Mapping[str, Any],
    put: Callable[[str], Awaitable[None]],
    *,
    adapter: str,
    rotations: int = 5,
) -> tuple[Counter[int], int]:
    """What callers got, and how many requests the upstream had refused for an old credential.

    ``relay.toml`` in ``directory`` configures the secret backend of ``value_from``, a reference to
    the secret that ``put`` gives a value. In the end the gateway is stopped and everything that it
    wrote is searched for all of the values.
    """
    upstream = OneCredential()
    async with running_scenario(directory, upstream, environ) as scenario:
        names = [f"credential {number}" for number in range(rotations + 1)]
        values = [scenario.canary.secret(name) for name in names]
        await put(values[0])
        upstream.newest = values[0]
        load = await _load(scenario, value_from, adapter)
        async with asyncio.timeout(60), asyncio.TaskGroup() as group:
            for _ in range(CALLERS):
                group.create_task(load.call())
            await load.until_more(BETWEEN)
            for value in values[1:]:
                await put(value)
                upstream.newest = value
                await load.until_more(BETWEEN)
            load.end()
        await scenario.sweep()
    return load.statuses, upstream.refused


async def _load(scenario: Scenario, value_from: Mapping[str, Any], adapter: str) -> Load:
    create = scenario.create
    policy = await create("policies", "All", models=["*"])
    provider = await create("providers", "Acme")
    host = await create("hosts", "Acme", baseUrl=scenario.upstream.url, adapter=adapter)
    binding = {"hostId": host}
    await create("models", "Rotated", name=MODEL, providerId=provider, bindings=[binding])
    await create("host-keys", "K", hostId=host, policyId=policy, valueFrom=dict(value_from))
    relay_key = await scenario.relay_key("app", policy)
    return Load(scenario.gateway.inference_url, relay_key)
