"""A process that is stopped and goes on: what it missed is not held against hosts or keys."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import httpx

from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.scenario import running_scenario
from relay_gateway.testing.script import Hang, Script, WaitFor, json_response

STOPPED_SECONDS = 10.0
PATIENCE_SECONDS = 3
ANSWER = {"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}}
EACH = 6
"""More than the failures in a row that have a host left alone."""


async def test_f65_a_process_that_was_stopped_leaves_no_host_and_no_key_alone(
    tmp_path: Path,
) -> None:
    late = asyncio.Event()

    def upstream(request: SeenRequest) -> Script:
        said = request.json()["messages"][0]["content"]
        if said == "late":
            return [WaitFor(late), *json_response(200, ANSWER)]
        return [Hang()] if said == "never" else json_response(200, ANSWER)

    async with running_scenario(tmp_path, upstream) as scenario:
        provider = await scenario.create("providers", "Acme")
        host = await scenario.create(
            "hosts",
            "acme",
            baseUrl=scenario.upstream.url,
            adapter="openai",
            timeouts={"firstByte": PATIENCE_SECONDS},
        )
        policy = await scenario.create("policies", "all", models=["*"])
        key = await scenario.create(
            "host-keys",
            "acme",
            hostId=host,
            policyId=policy,
            valueFrom={"kind": "stored", "value": scenario.canary.secret("host")},
        )
        await scenario.create("models", "m", name="m", providerId=provider, bindings=[
            {"hostId": host}
        ])  # fmt: skip
        bearer = {"authorization": f"Bearer {await scenario.relay_key('app', policy)}"}
        async with httpx.AsyncClient(
            base_url=scenario.gateway.inference_url, headers=bearer, timeout=60, trust_env=False
        ) as caller:

            async def ask(said: str) -> int:
                body = {"model": "m", "messages": [{"role": "user", "content": said}]}
                return (await caller.post("/v1/chat/completions", json=body)).status_code

            asked = [asyncio.ensure_future(ask(said)) for said in ("late", "never") * EACH]
            await scenario.upstream.until(lambda: len(scenario.upstream.ledger) == 2 * EACH)
            os.kill(scenario.gateway.pid, signal.SIGSTOP)
            late.set()
            await asyncio.sleep(STOPPED_SECONDS)
            os.kill(scenario.gateway.pid, signal.SIGCONT)
            statuses = await asyncio.gather(*asked)
            # Nothing can be known of those that were not answered; the others were in time.
            assert statuses == [200, 504] * EACH
            state = (await scenario.admin.get(f"/hosts/by-id/{host}/status")).json()["status"]
            assert (state["state"], state["ejections"]) == ("available", 0)
            state = (await scenario.admin.get(f"/host-keys/by-id/{key}/status")).json()["status"]
            assert state["state"] == "available"
            assert await ask("now") == 200
