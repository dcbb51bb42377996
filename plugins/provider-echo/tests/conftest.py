"""The provider under test, and one call of it as a test sees it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from relay_gateway.errors import UpstreamClosedError
from relay_gateway.plugin import Endpoint, PluginConfig, PluginContext, UpstreamCall, UpstreamHost
from relay_gateway_provider_echo.provider import EchoHost, EchoProvider

NOW = 1_790_000_000
NEVER_STREAMED = (
    "openai.embeddings",
    "openai.moderations",
    "openai.rerank",
    "anthropic.count_tokens",
)


class StoppedClock:
    """A clock that always shows the same time."""

    def monotonic(self) -> float:
        return 0.0

    def time(self) -> float:
        return NOW + 0.5


@dataclass
class Answer:
    """What came back: the chunks until the end or until the connection ``broke``."""

    status: int
    headers: dict[bytes, bytes]
    chunks: list[bytes]
    broke: bool

    @property
    def json(self) -> Any:
        return msgspec.json.decode(b"".join(self.chunks))

    @property
    def events(self) -> list[tuple[str, Any]]:
        """Name and JSON of each event, ``[DONE]`` left out."""
        found = []
        for chunk in self.chunks:
            assert chunk.endswith(b"\n\n")
            assert chunk.count(b"\n\n") == 1
            fields = dict(line.split(b": ", 1) for line in chunk.strip().split(b"\n"))
            if fields[b"data"] != b"[DONE]":
                name = fields.get(b"event", b"").decode()
                found.append((name, msgspec.json.decode(fields[b"data"])))
        return found


Ask = Callable[..., Awaitable[Answer]]


@pytest.fixture
def provider(tmp_path: Path) -> EchoProvider:
    context = PluginContext("echo", tmp_path, "sqlite://", clock=StoppedClock())
    return EchoProvider(PluginConfig(), context)


@pytest.fixture
def ask(provider: EchoProvider) -> Ask:
    """``await ask(wire_format, body, streamed=…, **adapter_config)``."""

    async def ask(wire_format: str, body: Any, *, streamed: bool = False, **config: Any) -> Answer:
        host = UpstreamHost("id", "echo", "http://echo.localhost", "", EchoHost(**config))
        streams = wire_format not in NEVER_STREAMED
        call = UpstreamCall(
            host=host,
            wire_format=wire_format,
            endpoint=Endpoint("operation", "/v1/operation", "/operation", streams=streams),
            upstream_model="echo",
            secret=None,
            headers=(),
            body=body if isinstance(body, bytes) else msgspec.json.encode(body),
            streamed=streamed,
        )
        answer = await provider.answer(call)
        chunks: list[bytes] = []
        broke = False
        try:
            async for chunk in answer.chunks:
                chunks.append(chunk)  # noqa: PERF401 -- those before a break count
        except UpstreamClosedError:
            broke = True
        return Answer(answer.status, dict(answer.headers), chunks, broke)

    return ask
