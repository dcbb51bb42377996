"""Turns of one conversation go to one host key, and the metrics say how often they did."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.scenario import Scenario, running_scenario
from relay_gateway.testing.script import Script, json_response

TURNS = 5
LONG = "Answer as a careful editor would. " * 600
"""A prompt that upstreams keep in their caches."""
ANSWER = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "Yes."}}],
    "usage": {"prompt_tokens": 5000, "completion_tokens": 2},
}


class Upstream:
    """Answers, and remembers the credentials that it saw."""

    def __init__(self) -> None:
        self.credentials: list[str] = []

    def __call__(self, request: SeenRequest) -> Script:
        self.credentials.append(request.header("authorization") or "")
        return json_response(200, ANSWER)


async def furnish(scenario: Scenario) -> str:
    """A model at a host with four equal keys, and a relay key that may use it."""
    host = await scenario.create(
        "hosts", "East", baseUrl=f"{scenario.upstream.url}/v1", adapter="openai"
    )
    policy = await scenario.create("policies", "All", models=["*"], keySelection="round-robin")
    for number in range(4):
        value = {"kind": "stored", "value": scenario.canary.secret(f"key {number}")}
        await scenario.create(
            "host-keys", f"Key {number}", hostId=host, policyId=policy, valueFrom=value
        )
    provider = await scenario.create("providers", "Acme")
    bindings = [{"hostId": host}]
    await scenario.create("models", "Acme", name="acme", providerId=provider, bindings=bindings)
    return await scenario.relay_key("writer", policy)


def turns(topic: str) -> list[dict[str, Any]]:
    """The requests of a conversation, each with all that was said before."""
    said = [{"role": "system", "content": LONG}, {"role": "user", "content": f"About {topic}."}]
    requests = []
    for number in range(TURNS):
        requests.append({"model": "acme", "messages": list(said)})
        said += [{"role": "assistant", "content": "Yes."}, {"role": "user", "content": f"{number}"}]
    return requests


async def test_turns_of_a_conversation_share_a_key_and_the_share_of_hits_is_shown(
    tmp_path: Path,
) -> None:
    upstream = Upstream()
    async with running_scenario(tmp_path, upstream) as scenario:
        key = await furnish(scenario)
        async with httpx.AsyncClient(
            base_url=scenario.gateway.inference_url,
            headers={"authorization": f"Bearer {key}"},
            trust_env=False,
        ) as caller:
            for topic in ("tides", "trains"):
                begun = len(upstream.credentials)
                for body in turns(topic):
                    answer = await caller.post("/v1/chat/completions", content=json.dumps(body))
                    assert answer.status_code == 200, answer.text
                assert len(set(upstream.credentials[begun:])) == 1
        metrics = (await scenario.admin.get("/metrics")).text
    name = "relay_prompt_affinity_total"
    shown = {
        line.partition('result="')[2].partition('"')[0]: float(line.rpartition(" ")[2])
        for line in metrics.splitlines()
        if line.startswith(name)
    }
    assert shown == {"hit": 2.0 * (TURNS - 1), "moved": 0.0, "new": 2.0}
