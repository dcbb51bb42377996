"""A sink that is away for ten minutes of the clock while a served gateway answers: SPOOL_MINUTES
says for how long, 10 unless told."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from relay_gateway.testing.honest_load import Heard, HonestLoad
from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.memory import MIB, resident_bytes
from relay_gateway.testing.scenario import Scenario, running_scenario
from relay_gateway.testing.scrape import Scrape
from relay_gateway.testing.script import Script, json_response, response
from relay_gateway.testing.upstream import ScriptedUpstream

MINUTES = float(os.environ.get("SPOOL_MINUTES", "10"))
RATE = 167
"""Requests a second: a hundred thousand in ten minutes."""
SAMPLES = 20
WARM_UP_SECONDS = 10.0
MOST_GROWTH = 48 * MIB
"""Twice what 16 384 records take, which is how many wait in memory at most. All records of ten
minutes would take three times as much."""
ARRIVAL_SECONDS = 300.0
"""The sink is asked again after half a minute at the latest, and then takes a file at a time."""
MODEL = "steady"
SINK = """
[usage_logging]
sinks = ["s3"]

[usage_sinks.s3]
bucket = "usage"
region = "eu-central-1"
endpoint_url = "{url}"
path_style = true
value_from = {{ kind = "env", env = "STORE_KEYS" }}
batch_records = 5000
batch_seconds = 1.0
"""
ENVIRON = {
    "STORE_KEYS": json.dumps({"accessKeyId": "made-up", "secretAccessKey": "made-up-too"}),
    "RELAY_LOG_LEVEL": "warning",
}
ANSWER = {
    "id": "c1",
    "object": "chat.completion",
    "model": MODEL,
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
}

_log = logging.getLogger(__name__)


class Bucket:
    """What a store says to everything, and the requests whose records it was given.

    An object is of one hour, so where a batch has records of two, either is in order by itself.
    """

    def __init__(self) -> None:
        self.objects = 0
        self._hours: dict[str, list[str]] = {}

    def __call__(self, request: SeenRequest) -> Script:
        if request.method != "PUT":
            return response(200)
        self.objects += 1
        for line in gzip.decompress(request.body).splitlines():
            record = json.loads(line)
            self._hours.setdefault(record["startedAt"][:13], []).append(record["requestId"])
        return response(200, b"", [("etag", '"1"')])

    @property
    def arrived(self) -> int:
        """How many records it was given, repetitions included."""
        return sum(map(len, self._hours.values()))

    @property
    def requests(self) -> list[str]:
        """Theirs, in the order in which they came."""
        return [one for hour in sorted(self._hours) for one in self._hours[hour]]


def out_of_order(requests: Sequence[str], heard: Sequence[Heard]) -> list[str]:
    """The requests that were answered before one was sent that stands before them."""
    by_id = {one.request_id: one for one in heard}
    wrong, latest = [], 0.0
    for one in map(by_id.__getitem__, requests):
        latest = max(latest, one.asked)
        if one.answered < latest:
            wrong.append(one.request_id)
    return wrong


class Traffic:
    """A steady load on a gateway, how much of it a host has seen, and what the gateway holds."""

    def __init__(self, scenario: Scenario, key: str) -> None:
        body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "Hello"}]})
        head = (
            "POST /v1/chat/completions HTTP/1.1", "Host: gateway", f"Authorization: Bearer {key}",
            "Content-Type: application/json", f"Content-Length: {len(body)}", "", body,
        )  # fmt: skip
        port = int(scenario.gateway.inference_url.rpartition(":")[2])
        self._load = HonestLoad(port, "\r\n".join(head).encode(), rate=RATE)
        self._scenario = scenario
        self.heard: list[Heard] = []
        self.seen = 0
        self.held: list[int] = []

    async def flow(self, seconds: float) -> None:
        """Requests for so long, with samples of the gateway's memory."""
        watching = asyncio.create_task(self._watch(seconds / SAMPLES))
        try:
            self.heard += await self._load.run(seconds)
        finally:
            watching.cancel()
        self._look()

    async def _watch(self, every: float) -> None:
        while True:
            self._look()
            await asyncio.sleep(every)

    def _look(self) -> None:
        upstream = self._scenario.upstream
        self.seen += len(upstream.ledger)
        upstream.ledger.clear()
        self.held.append(resident_bytes(self._scenario.gateway.pid))


@pytest.fixture
def bucket() -> Bucket:
    return Bucket()


@pytest.fixture
async def store(bucket: Bucket) -> AsyncIterator[ScriptedUpstream]:
    """Where the bucket is; :meth:`ScriptedUpstream.aclose` has it down."""
    async with ScriptedUpstream(bucket) as store:
        yield store


@pytest.fixture
async def scenario(tmp_path: Path, store: ScriptedUpstream) -> AsyncIterator[Scenario]:
    (tmp_path / "relay.toml").write_text(SINK.format(url=store.url), "utf-8")
    async with running_scenario(tmp_path, lambda _: json_response(200, ANSWER), ENVIRON) as served:
        yield served


async def serving(scenario: Scenario) -> Traffic:
    """Traffic for a model that the upstream answers."""
    url = f"{scenario.upstream.url}/v1"
    host = await scenario.create("hosts", "Steady", baseUrl=url, adapter="openai", noAuth=True)
    provider = await scenario.create("providers", "Steady")
    bindings = [{"hostId": host}]
    await scenario.create("models", "Steady", name=MODEL, providerId=provider, bindings=bindings)
    policy = await scenario.create("policies", "All", models=["*"])
    return Traffic(scenario, await scenario.relay_key("caller", policy))


async def test_f16_every_record_of_ten_minutes_without_the_sink_arrives_once_and_in_order(
    scenario: Scenario, store: ScriptedUpstream, bucket: Bucket, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "httpx")  # which tells of each request
    loop = asyncio.get_running_loop()
    traffic = await serving(scenario)
    await traffic.flow(WARM_UP_SECONDS)
    await store.until(lambda: bucket.arrived == len(traffic.heard), seconds=ARRIVAL_SECONDS)
    before, traffic.held = bucket.arrived, []

    await store.aclose()
    down = loop.time()
    await traffic.flow(MINUTES * 60 + 1)
    waiting = (await Scrape.of(scenario.admin)).total("relay_usage_queue_records", sink="s3")
    ready = (await scenario.admin.get("/readyz")).json()
    away = loop.time() - down
    assert bucket.arrived == before
    await store.start()
    up = loop.time()
    await store.until(lambda: bucket.arrived >= len(traffic.heard), seconds=ARRIVAL_SECONDS)

    _log.info(
        "%d requests in %.1f s without the sink, delivered %.1f s after its return; %d objects",
        len(traffic.heard) - before, away, loop.time() - up, bucket.objects,
    )  # fmt: skip
    _log.info("memory in MiB meanwhile: %s", [round(one / MIB, 1) for one in traffic.held])
    assert away >= MINUTES * 60
    assert waiting == len(traffic.heard) - before
    assert "usage sink s3" in ready["degraded"]
    assert traffic.seen == len(traffic.heard)
    assert sorted(bucket.requests) == sorted(one.request_id for one in traffic.heard)
    assert out_of_order(bucket.requests, traffic.heard) == []
    assert max(traffic.held) - traffic.held[0] <= MOST_GROWTH
