"""The metrics of a gateway that has served real traffic, beside what its upstream and logs say."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from relay_gateway.observe.families import FAMILIES
from relay_gateway.testing.canary import Canary, assert_absent
from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.scenario import Scenario, running_scenario
from relay_gateway.testing.scrape import Scrape
from relay_gateway.testing.script import Script, json_response, sse_event, sse_response

USAGE = {"prompt_tokens": 12, "completion_tokens": 4, "total_tokens": 16}
WITHOUT_LIMITS = {
    "relay_budget_marks_total",
    "relay_budget_refusals_total",
    "relay_guard_decisions_total",
    "relay_limit_decisions_total",
}
"""What has no series where nobody has limits, budgets or guards."""
STATUS = {"/broken/": 500, "/busy/": 429, "/strict/": 400}


def answer(request: SeenRequest) -> Script:
    """A chat completion, or the error that the first part of the path stands for."""
    for prefix, status in STATUS.items():
        if request.target.startswith(prefix):
            return json_response(status, {"error": {"message": "made up"}})
    choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
    if not request.json().get("stream"):
        message = {"role": "assistant", "content": "Hi"}
        whole = {"choices": [{**choice, "message": message}], "usage": USAGE}
        return json_response(200, whole)
    part = {"choices": [{**choice, "delta": {"content": "Hi"}}]}
    usage = {"choices": [], "usage": USAGE}
    return sse_response([sse_event(part), sse_event(usage), sse_event("[DONE]")])


class Traffic:
    """Hosts that answer well or ill, and a caller whose every text is a secret."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.key = ""
        self.client = httpx.AsyncClient(base_url=scenario.gateway.inference_url, trust_env=False)

    async def furnish(self) -> None:
        create, canary = self.scenario.create, self.scenario.canary
        provider, policy = (
            await create("providers", "Acme"),
            await create("policies", "All", models=["*"]),
        )
        rates = [
            {"meter": "tokens.input", "amount": "2.5"},
            {"meter": "tokens.output", "amount": "10"},
        ]
        pricing = await create("pricings", "Prices", rates=rates)
        for slug in ("east", "broken", "busy", "strict"):
            url = f"{self.scenario.upstream.url}/{slug}/v1"
            host = await create("hosts", slug, slug=slug, baseUrl=url, adapter="openai")
            value = {"kind": "stored", "value": canary.secret(f"host key {slug}")}
            await create(
                "host-keys", slug, slug=f"key-{slug}", hostId=host, policyId=policy, valueFrom=value
            )
            for name, binding in ((slug, {"pricingId": pricing}), (f"{slug}-free", {})):
                bindings = [{"hostId": host, **binding}]
                await create(
                    "models",
                    name,
                    slug=name,
                    name=f"m-{name}",
                    providerId=provider,
                    bindings=bindings,
                )
        self.key = await self.scenario.relay_key("caller", policy)

    async def ask(self, model: str, *, stream: bool = False, key: str | None = None) -> int:
        """One request, read to its end; its status."""
        secret = self.scenario.canary.secret
        headers = {
            "authorization": f"Bearer {self.key if key is None else key}",
            "user-agent": secret("user agent"),
            "x-request-id": secret("client request id"),
            "x-relay-request-tags": f'{{"team": "{secret("tag")}"}}',
        }
        body = {"model": model, "stream": stream, "messages": [{"content": secret("prompt")}]}
        answered = await self.client.post("/v1/chat/completions", json=body, headers=headers)
        return answered.status_code


@pytest.fixture
async def traffic(tmp_path: Path, canary: Canary) -> AsyncIterator[Traffic]:
    environ = {"RELAY_LOG_LEVEL": "info"}
    async with running_scenario(tmp_path, answer, environ, canary) as scenario:
        served = Traffic(scenario)
        async with served.client:
            await served.furnish()
            yield served


async def make_traffic(traffic: Traffic) -> int:
    """Something of everything; how many requests it was."""
    secret = traffic.scenario.canary.secret
    asked = [
        *(traffic.ask("m-east") for _ in range(3)),
        *(traffic.ask("m-east", stream=True) for _ in range(2)),
        traffic.ask("m-east-free"),
        traffic.ask("m-broken"),
        traffic.ask("m-busy"),
        traffic.ask("m-strict"),
        traffic.ask(secret("model name")),
        traffic.ask("m-east", key=secret("wrong key")),
    ]
    statuses = await asyncio.gather(*asked)
    assert statuses == [200] * 6 + [*statuses[6:8], 400, 404, 401]
    assert min(statuses[6:8]) >= 429
    return len(statuses)


async def test_t14_t42_the_metrics_say_what_upstream_and_logs_say_and_nothing_that_callers_said(
    traffic: Traffic,
) -> None:
    scenario = traffic.scenario
    count = await make_traffic(traffic)
    records = await scenario.logs(count)
    scrape = await Scrape.of(scenario.admin)

    labels = ("model", "host", "outcome")
    assert scrape.by("relay_requests_total", *labels) == {
        ("east", "east", "ok"): 5,
        ("east-free", "east", "ok"): 1,
        ("broken", "broken", "upstream_error"): 1,
        ("busy", "busy", "upstream_error"): 1,
        ("strict", "strict", "upstream_error"): 1,
        ("other", "none", "rejected"): 1,
        ("none", "none", "rejected"): 1,
    }
    outcomes = Counter((record["outcome"],) for record in records)
    assert scrape.by("relay_requests_total", "outcome") == outcomes
    codes = Counter((record["errorCode"],) for record in records if record.get("errorCode"))
    assert scrape.by("relay_request_errors_total", "code") == codes

    seen = Counter((request.target.split("/")[1],) for request in scenario.upstream.ledger)
    assert scrape.by("relay_upstream_attempts_total", "host") == seen
    assert scrape.total("relay_upstream_attempts_total", host="east", result="ok") == 6
    assert scrape.total("relay_upstream_attempts_total", result="throttled") == seen["busy",]

    tokens = {("east", "input"): 60, ("east", "output"): 20}
    tokens |= {("east-free", "input"): 12, ("east-free", "output"): 4}
    assert scrape.by("relay_tokens_total", "model", "meter") == tokens
    cost = sum(record.get("costNanos") or 0 for record in records)
    assert cost > 0
    assert scrape.total("relay_cost_total", model="east", currency="USD") == cost / 1e9
    assert scrape.by("relay_unpriced_requests_total", "model") == {("east-free",): 1}

    durations = sum(record["durationMs"] for record in records) / 1000
    assert scrape.total("relay_request_duration_seconds_sum") == pytest.approx(durations)
    assert scrape.total("relay_request_duration_seconds_count") == count
    assert scrape.total("relay_overhead_seconds_count") == count
    assert scrape.total("relay_time_to_first_token_seconds_count", model="east") == 2

    benched = scrape.by("relay_host_key_benched", "host", "host_key")
    assert benched["busy", "key-busy"] == 1
    assert sum(benched.values()) == 1
    assert scrape.total("relay_secret_fetches_total", backend="stored", result="ok") == 4
    check_the_rest(scrape)
    await check_secrets(traffic, scrape)


def check_the_rest(scrape: Scrape) -> None:
    """What has little to do with the traffic; and that there is no metric without a series."""
    assert scrape.total("relay_requests_in_flight", process="gateway") == 0
    assert scrape.total("relay_ready") == scrape.total("relay_process_up") == 1
    assert scrape.total("relay_usage_queue_records", sink="database") == 0
    assert scrape.by("relay_catalog_source", "source")["database",] == 1
    assert scrape.total("relay_snapshot_revision") > 20
    assert scrape.total("relay_snapshot_lag_revisions") == 0
    assert 0 < scrape.total("process_resident_memory_bytes") < 1e9
    endings = ("_bucket", "_count", "_sum")
    there = {
        name.removesuffix(next((e for e in endings if name.endswith(e)), ""))
        for name, _, _ in scrape.samples
    }
    assert set(FAMILIES) - there == WITHOUT_LIMITS
    assert there <= set(FAMILIES)


async def check_secrets(traffic: Traffic, scrape: Scrape) -> None:
    canary = traffic.scenario.canary
    needed = {"caller", "host key east", "prompt", "tag", "user agent", "model name", "wrong key"}
    assert needed <= set(canary.names)
    assert_absent(canary, texts={"metrics": scrape.text})
    assert traffic.scenario.gateway.admin_token not in scrape.text
