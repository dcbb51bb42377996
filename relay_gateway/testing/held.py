"""A gateway process with a model whose streams begin at once and end when the test says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from relay_gateway.testing.kept import kept_records
from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.process import GatewayProcess
from relay_gateway.testing.scenario import Scenario, running_scenario
from relay_gateway.testing.script import (
    EVENT_STREAM_HEADERS,
    LAST_CHUNK,
    Hang,
    Script,
    Send,
    WaitFor,
    chunk,
    head,
    sse_event,
)

MODEL = "held"
PROPAGATION_SECONDS = 30.0
"""How long a busy machine may take until every worker knows of a change."""
ENOUGH_CONNECTIONS = 60
"""The kernel spreads connections by chance: so many miss one of four workers once in some
millions."""
PART = {"choices": [{"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}]}
USAGE = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}


class HeldUpstream:
    """Begins each stream at once and ends it when ``finish`` is set; never answers what is no
    stream."""

    def __init__(self) -> None:
        self.finish = asyncio.Event()

    def __call__(self, request: SeenRequest) -> Script:
        if not request.json().get("stream"):
            return [Hang()]
        rest = b"".join(chunk(sse_event(event)) for event in (PART, USAGE, "[DONE]"))
        return [
            Send(head(200, EVENT_STREAM_HEADERS) + chunk(sse_event(PART))),
            WaitFor(self.finish),
            Send(rest + LAST_CHUNK),
        ]


class Call:
    """One connection of a caller to the inference plane, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def ask(self, method: str, path: str, key: str, body: object = None) -> None:
        """Sends a request; the connection stays open for another one."""
        encoded = b"" if body is None else json.dumps(body).encode()
        lines = (
            f"{method} {path} HTTP/1.1",
            "Host: gateway",
            f"Authorization: Bearer {key}",
            "Content-Type: application/json",
            f"Content-Length: {len(encoded)}",
        )
        self.writer.write("\r\n".join((*lines, "", "")).encode() + encoded)
        await self.writer.drain()

    async def answer(self) -> tuple[int, bytes]:
        """Status and body of an answer that has a ``Content-Length``."""
        received = await self.reader.readuntil(b"\r\n\r\n")
        status = int(received.split(b" ", 2)[1])
        length = received.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        return status, await self.reader.readexactly(int(length))

    async def first_event(self) -> None:
        """Waits until a stream has begun to come."""
        received = await self.reader.readuntil(b"\r\n\r\n")
        assert received.startswith(b"HTTP/1.1 200 "), received
        await self.reader.readuntil(b'"Hi"')

    async def whole_stream(self) -> None:
        """Waits until a stream has ended regularly; the connection stays open."""
        await self.reader.readuntil(b"data: [DONE]\n\n\r\n0\r\n\r\n")

    async def rest(self) -> bytes:
        """Everything up to the end of the connection."""
        return await self.reader.read()


@dataclass(frozen=True, slots=True)
class Held:
    """A running gateway, its upstream, and a relay key for the model."""

    scenario: Scenario
    upstream: HeldUpstream
    key: str
    calls: AsyncExitStack

    @property
    def gateway(self) -> GatewayProcess:
        """The process that was started: a supervisor where there are workers."""
        return self.scenario.gateway

    async def connect(self) -> Call:
        """A new connection; it is closed at the end of the test."""
        host, _, port = self.gateway.inference_url.removeprefix("http://").rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        self.calls.callback(writer.close)
        return Call(reader, writer)

    def called_with(self, key: str) -> Held:
        """The same gateway with another relay key."""
        return replace(self, key=key)

    async def begin(self) -> tuple[int, Call]:
        """The status of a stream that is asked for on a connection of its own."""
        call = await self.ask(stream=True)
        head = await call.reader.readuntil(b"\r\n\r\n")
        return int(head.split(b" ", 2)[1]), call

    async def ask(self, *, stream: bool) -> Call:
        """A chat completion that is asked for on a new connection."""
        call = await self.connect()
        body = {"model": MODEL, "stream": stream, "messages": []}
        await call.ask("POST", "/v1/chat/completions", self.key, body)
        return call

    async def streams(self, count: int) -> list[Call]:
        """``count`` streams, each begun and none ended."""
        calls = await asyncio.gather(*(self.ask(stream=True) for _ in range(count)))
        await asyncio.gather(*(call.first_event() for call in calls))
        return calls

    async def until_every_worker_answers(self, status: int) -> None:
        """Waits until whoever takes a connection answers so to the relay key."""
        async with asyncio.timeout(PROPAGATION_SECONDS):
            in_a_row = 0
            while in_a_row < ENOUGH_CONNECTIONS:
                call = await self.connect()
                await call.ask("GET", "/v1/models", self.key)
                in_a_row = in_a_row + 1 if (await call.answer())[0] == status else 0

    async def records(self) -> list[dict[str, Any]]:
        """Every usage record in the database; for after the end of the gateway."""
        return await kept_records(self.gateway.data_dir)


@asynccontextmanager
async def running_held(
    directory: Path, adapter: str, environ: Mapping[str, str]
) -> AsyncIterator[Held]:
    """A gateway on data below ``directory``, and a host of this adapter behind it."""
    upstream = HeldUpstream()
    async with (
        running_scenario(directory, upstream, environ) as scenario,
        AsyncExitStack() as calls,
    ):
        key = await _furnish(scenario, adapter)
        held = Held(scenario, upstream, key, calls)
        await held.until_every_worker_answers(200)
        try:
            yield held
        finally:
            upstream.finish.set()


async def _furnish(scenario: Scenario, adapter: str) -> str:
    url = f"{scenario.upstream.url}/v1"
    host = await scenario.create("hosts", "Held", baseUrl=url, adapter=adapter, noAuth=True)
    provider = await scenario.create("providers", "Held")
    bindings = [{"hostId": host}]
    await scenario.create("models", "Held", name=MODEL, providerId=provider, bindings=bindings)
    policy = await scenario.create("policies", "All", models=["*"])
    return await scenario.relay_key("caller", policy)
