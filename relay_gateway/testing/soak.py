"""A gateway under mixed traffic for a long time, and what it holds meanwhile.

Callers ask for whole answers and streams, leave in the middle of streams, are refused and meet a
host that always fails. Meanwhile relay keys are made, rotated and deleted, models come and go, and
usage goes to other sinks. Samples are taken of what must not grow.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import linear_regression
from typing import Any

import httpx

from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.memory import MIB, resident_bytes
from relay_gateway.testing.scenario import Scenario, running_scenario
from relay_gateway.testing.scrape import Scrape
from relay_gateway.testing.script import Close, Script, Wait, json_response, sse_event, sse_response

MODEL, ILL_MODEL = "soaked", "ill"
CALLERS = 6
EVENTS = 20
RENEWED_AFTER = 200
"""Requests after which a connection to the upstream is closed: this one keeps all that it saw."""
SETTLING_SECONDS = 30.0
SINKS: Sequence[Sequence[str]] = (("database",), ("database", "file"), ("file", "database"))
PART = {"choices": [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]}
USAGE = {"prompt_tokens": 30, "completion_tokens": 20, "total_tokens": 50}
ANSWER = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": MODEL,
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "word " * 200},
            "finish_reason": "stop",
        }
    ],
    "usage": USAGE,
}
STREAM = [
    *[sse_event(PART)] * EVENTS,
    sse_event({"choices": [], "usage": USAGE}),
    sse_event("[DONE]"),
]


@dataclass(frozen=True, slots=True)
class Sample:
    """What the gateway holds at one moment, ``seconds`` after the beginning."""

    seconds: float
    requests: int
    resident: int
    descriptors: int
    tasks: int
    spool: int

    def __str__(self) -> str:
        return (
            f"{self.seconds:8.0f} s  {self.requests:9d} requests  {self.resident / MIB:7.1f} MiB  "
            f"{self.descriptors:4d} descriptors  {self.tasks:4d} tasks  {self.spool:9d} B of spool"
        )


@dataclass(frozen=True, slots=True)
class Endurance:
    """What a soak has shown. ``recorded`` is how many usage records there are in the end, ``rest``
    what the gateway holds when everything has settled."""

    asked: Counter[str]
    unexpected: Counter[str]
    recorded: int
    samples: Sequence[Sample]
    rest: Sample

    def growth(self, warm_up: float) -> float:
        """By how many bytes resident memory grows from the first sample after ``warm_up``, a share
        of the time, to the last, on the line that fits all of them best."""
        first = self.samples[-1].seconds * warm_up
        warm = [sample for sample in self.samples if sample.seconds >= first]
        times = [sample.seconds for sample in warm]
        slope, _ = linear_regression(times, [float(sample.resident) for sample in warm])
        return slope * (times[-1] - times[0])


def answer(request: SeenRequest) -> Script:
    """What the upstream says: a stream, an answer, or an error where the host is the ill one."""
    if request.target.startswith("/ill/"):
        return json_response(500, {"error": {"message": "ill", "type": "server_error"}})
    if request.json().get("stream"):
        script = sse_response(STREAM, delay=0.002)
    else:
        script = [Wait(0.01), *json_response(200, ANSWER)]
    return [*script, Close()] if request.ordinal >= RENEWED_AFTER else script


@dataclass(slots=True)
class Soak:
    """Traffic against one gateway. ``key`` is the relay key of all callers."""

    scenario: Scenario
    key: str
    policy: str
    provider: str
    host: str
    chance: random.Random
    asked: Counter[str] = field(default_factory=Counter)
    unexpected: Counter[str] = field(default_factory=Counter)
    _turn: int = 0

    async def run(self, seconds: float, every: float) -> Endurance:
        """Lets traffic flow for so long, with a sample ``every`` so many seconds."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        samples = []
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._call(began + seconds)) for _ in range(CALLERS)]
            tasks.append(group.create_task(self._operate(began + seconds)))
            while loop.time() + every <= began + seconds:
                await asyncio.sleep(every)
                samples.append(await self._sample(loop.time() - began))
        rest = await self._settled(began)
        recorded = await self._recorded()
        return Endurance(self.asked, self.unexpected, recorded, samples, rest)

    async def _call(self, until: float) -> None:
        loop = asyncio.get_running_loop()
        ways: dict[Callable[[httpx.AsyncClient], Awaitable[None]], int] = {
            self._whole: 50, self._stream: 20, self._leave: 15,
            self._ill: 5, self._unknown_model: 5, self._unknown_key: 5,
        }  # fmt: skip
        url = self.scenario.gateway.inference_url
        while loop.time() < until:
            # Callers come and go as well.
            async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=30.0) as caller:
                for way in self.chance.choices([*ways], [*ways.values()], k=100):
                    if loop.time() < until:
                        await way(caller)

    async def _whole(self, caller: httpx.AsyncClient) -> None:
        await self._ask(caller, "whole", 200)

    async def _ill(self, caller: httpx.AsyncClient) -> None:
        # Its own error at first, then that of a host that is not asked for a while.
        await self._ask(caller, "ill", 500, 502, 503, 429, model=ILL_MODEL)

    async def _unknown_model(self, caller: httpx.AsyncClient) -> None:
        await self._ask(caller, "unknown model", 404, model="nobody")

    async def _unknown_key(self, caller: httpx.AsyncClient) -> None:
        await self._ask(caller, "unknown key", 401, key="sk-relay-unknown")

    async def _stream(self, caller: httpx.AsyncClient) -> None:
        await self._read_stream(caller, "stream", leave=False)

    async def _leave(self, caller: httpx.AsyncClient) -> None:
        await self._read_stream(caller, "left", leave=True)

    async def _ask(
        self,
        caller: httpx.AsyncClient,
        what: str,
        *statuses: int,
        model: str = MODEL,
        key: str | None = None,
    ) -> None:
        response = await caller.post(
            "/v1/chat/completions", json=_body(model), headers=_head(key or self.key)
        )
        self._note(what, response.status_code, statuses)

    async def _read_stream(self, caller: httpx.AsyncClient, what: str, *, leave: bool) -> None:
        body = _body(MODEL, stream=True)
        url = "/v1/chat/completions"
        async with caller.stream("POST", url, json=body, headers=_head(self.key)) as response:
            self._note(what, response.status_code, (200,))
            received = b""
            async for piece in response.aiter_raw():
                received += piece
                if leave:
                    return
        if not received.rstrip().endswith(b"[DONE]"):
            self.unexpected["a stream without its end"] += 1

    def _note(self, what: str, status: int, statuses: Sequence[int]) -> None:
        self.asked[what] += 1
        if status not in statuses:
            self.unexpected[f"{what}: {status}"] += 1

    async def _operate(self, until: float) -> None:
        """Writes to the catalog and switches sinks, about twice a second."""
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            await self._change_relay_key()
            await self._change_model()
            self._turn += 1
            if self._turn % 5 == 0:
                sinks = SINKS[self._turn // 5 % len(SINKS)]
                await self._write("PUT", "/settings/usage-logging", {"sinks": list(sinks)})
            await asyncio.sleep(0.5)

    async def _change_relay_key(self) -> None:
        made = await self._made("relay-keys", f"key {self._turn}", policyId=self.policy)
        path = f"/relay-keys/by-id/{made}"
        await self._write("POST", f"{path}/rotate", {"graceSeconds": 0})
        await self._write("DELETE", path)

    async def _change_model(self) -> None:
        name = f"passing-{self._turn}"
        bindings = [{"hostId": self.host}]
        made = await self._made(
            "models", name, name=name, providerId=self.provider, bindings=bindings
        )
        await self._write("DELETE", f"/models/by-id/{made}")

    async def _made(self, plural: str, display_name: str, **spec: Any) -> str:
        body = {"metadata": {"displayName": display_name}, "spec": spec}
        answer = await self._write("POST", f"/{plural}", body)
        made = answer.json()
        return str(made.get("relayKey", made)["metadata"]["id"])

    async def _write(self, method: str, path: str, body: object = None) -> httpx.Response:
        answer = await self.scenario.admin.request(method, path, json=body)
        assert answer.is_success, f"{method} {path}: {answer.text}"
        return answer

    async def _sample(self, seconds: float) -> Sample:
        upstream = self.scenario.upstream
        for seen in (upstream.ledger, upstream.connections, upstream.cancellations):
            seen.clear()
        self.scenario.answers.clear()
        scrape = await Scrape.of(self.scenario.admin)
        pid = self.scenario.gateway.pid
        return Sample(
            seconds,
            self.asked.total(),
            resident_bytes(pid),
            len(list((Path("/proc") / str(pid) / "fd").iterdir())),
            int(scrape.total("relay_event_loop_tasks")),
            int(scrape.total("relay_spool_bytes")),
        )

    async def _settled(self, began: float) -> Sample:
        """A sample once nothing is under way any more and every sink has everything."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(SETTLING_SECONDS):
            while True:
                scrape = await Scrape.of(self.scenario.admin)
                busy = scrape.total("relay_requests_in_flight")
                if not busy + scrape.total("relay_usage_queue_records"):
                    return await self._sample(loop.time() - began)
                await asyncio.sleep(0.05)

    async def _recorded(self) -> int:
        await self._write("PUT", "/settings/usage-logging", {"sinks": ["database"]})
        answer = await self._write("GET", "/usage/summary")
        return sum(int(row["requests"]) for row in answer.json()["items"])


@asynccontextmanager
async def running_soak(directory: Path, adapter: str, seed: int) -> AsyncIterator[Soak]:
    """A gateway on data below ``directory``, with hosts of this adapter."""
    async with running_scenario(directory, answer) as scenario:
        url = scenario.upstream.url
        host = await scenario.create(
            "hosts", "Well", baseUrl=f"{url}/v1", adapter=adapter, noAuth=True
        )
        ill = await scenario.create(
            "hosts", "Ill", baseUrl=f"{url}/ill/v1", adapter=adapter, noAuth=True
        )
        provider = await scenario.create("providers", "Soaked")
        for name, one in ((MODEL, host), (ILL_MODEL, ill)):
            bindings = [{"hostId": one}]
            await scenario.create("models", name, name=name, providerId=provider, bindings=bindings)
        policy = await scenario.create("policies", "All", models=["*"])
        key = await scenario.relay_key("soak", policy)
        chance = random.Random(seed)  # noqa: S311 - repeatable
        yield Soak(scenario, key, policy, provider, host, chance)


def _body(model: str, *, stream: bool = False) -> dict[str, object]:
    return {"model": model, "stream": stream, "messages": [{"role": "user", "content": "Hello"}]}


def _head(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}
