"""What ``plugins bench`` measures: calls of the public API as the gateway makes them, in a loop.

A plugin that stores is measured in a temporary directory with the section that it is given, never
with that of the gateway: what is written here is made up.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from pydantic import ValidationError

from relay_gateway.cli.installed_plugins import InstalledPlugin
from relay_gateway.errors import ConfigurationError
from relay_gateway.ids import new_id
from relay_gateway.plugin import (
    AnswerContext,
    Guard,
    Hold,
    PayloadLogger,
    PayloadRecord,
    Plugin,
    PluginContext,
    Requester,
    RowBinding,
    Secret,
    SecretBackend,
    StateStore,
    UpstreamCall,
    UpstreamHost,
    UpstreamProvider,
    UsageRecord,
    UsageSink,
    WireFormat,
)
from relay_gateway.plugin.canonical import (
    CanonicalRequest,
    CanonicalResponse,
    Message,
    Origin,
    PartStarted,
    Stop,
    StopKind,
    Text,
    TextDelta,
    Usage,
)

WARM_UP = 20
MAX_CALLS = 1_000_000
Work = Callable[[], object]
Input = TypeVar("Input")


class Figure(msgspec.Struct, frozen=True):
    """How long one call takes, in microseconds: the middle one and the slowest of a hundred.

    ``per`` is what the call is made for (``request``, ``batch of 500``), ``calls`` how many were
    timed."""

    what: str
    per: str
    median_us: float
    p99_us: float
    calls: int


async def bench(
    plugin: InstalledPlugin,
    seconds: float,
    section: Mapping[str, Any],
    reference: Mapping[str, Any] | None = None,
) -> list[Figure]:
    """Measures each of the plugin's calls for ``seconds``.

    Raises :class:`ConfigurationError` for a section that does not validate, for a secret backend
    without a ``reference``, and for what cannot be measured.
    """
    if not (isinstance(plugin.item, type) and issubclass(plugin.item, Plugin)):
        raise ConfigurationError(f"{plugin.info.name} cannot be measured: {plugin.info.error}")
    async with _opened(plugin.item, section) as made:
        if isinstance(made, UpstreamProvider):
            return list(_provider(made, seconds))
        if isinstance(made, SecretBackend):
            return await _backend(made, seconds, reference)
        if isinstance(made, UsageSink):
            return [await _sink(made, seconds)]
        if isinstance(made, PayloadLogger):
            return [await _logger(made, seconds)]
        if isinstance(made, StateStore):
            return [await _store(made, seconds)]
        if isinstance(made, Guard):
            return [one async for one in _guard(made, seconds)]
    raise ConfigurationError(f"there is no measure for a {plugin.info.kind}")


@asynccontextmanager
async def _opened(kind: type[Plugin[Any]], section: Mapping[str, Any]) -> AsyncIterator[Any]:
    try:
        config = kind.Config.model_validate(dict(section))
    except ValidationError as error:
        # Not raised from it: it quotes what it refuses.
        found = error.errors(include_url=False, include_input=False, include_context=False)
        named = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in found)
        raise ConfigurationError(
            f"the section of {kind.name} does not validate ({named}); put its keys into a file and "
            "pass it with --section"
        ) from None
    with tempfile.TemporaryDirectory(prefix="relay-bench-") as name:
        directory = Path(name)
        database = f"sqlite:///{directory / 'relay.sqlite3'}"
        context = PluginContext(kind.name, directory, database, environ=os.environ.get)
        made = kind(config, context)
        try:
            await made.aopen()
            yield made
        finally:
            await made.aclose()
            await context.aclose()


def _provider(provider: UpstreamProvider[Any], seconds: float) -> Iterator[Figure]:
    formats = [kind() for kind in provider.defines]
    for wire_format in formats:
        yield from _format(provider, wire_format, seconds)
    if not formats:
        error = b'{"error":{"message":"overloaded"}}'
        yield _timed(
            "classify an error", "error", seconds, lambda: provider.classify(503, {}, error)
        )


def _format(
    provider: UpstreamProvider[Any], wire_format: WireFormat, seconds: float
) -> Iterator[Figure]:
    name, codec = wire_format.name, wire_format.codec()
    asked, told = _request(name), _answer()
    body = b'{"model":"bench"}' if codec is None else codec.encode_request(asked, "bench").body
    if not provider.local and wire_format.endpoints:
        call = _call(provider, wire_format, body)
        yield _timed(
            f"{name}: build a request", "request", seconds, lambda: provider.build_request(call)
        )
    if codec is None:
        return
    context = AnswerContext(asked, new_id(), int(time.time()))
    answer = codec.encode_response(told, context)
    work: dict[str, Work] = {
        "read usage": lambda: wire_format.meter().body(answer),
        "read a request": lambda: codec.decode_request(body, model="bench"),
        "write a request": lambda: codec.encode_request(asked, "bench"),
        "read an answer": lambda: codec.decode_response(answer),
        "write an answer": lambda: codec.encode_response(told, context),
    }
    for what, one in work.items():
        yield _timed(f"{name}: {what}", "request", seconds, one)


def _call(provider: UpstreamProvider[Any], wire_format: WireFormat, body: bytes) -> UpstreamCall:
    host = UpstreamHost("h", "bench", "http://bench.invalid/v1", "/v1", provider.HostConfig())
    (endpoint, *_), secret = wire_format.endpoints, Secret("bench-0123456789abcdef")
    return UpstreamCall(host, wire_format.name, endpoint, "bench", secret, (), body, streamed=False)


def _request(format_name: str) -> CanonicalRequest:
    turns = (
        Message("system", (Text("Be brief."),)),
        Message("user", (Text("What is the weather like in Zürich? " * 20),)),
    )
    return CanonicalRequest(
        model="bench", messages=turns, max_output_tokens=200, origin=Origin(format_name)
    )


def _answer() -> CanonicalResponse:
    return CanonicalResponse(
        id="bench",
        model="bench",
        parts=(Text("Sunny, with a light wind from the west. " * 20),),
        stop=Stop(StopKind.END),
        usage=Usage(input=200, output=180),
    )


async def _backend(
    backend: SecretBackend[Any], seconds: float, reference: Mapping[str, Any] | None
) -> list[Figure]:
    if reference is None:
        raise ConfigurationError(
            f"what is {backend.name} to resolve? pass a valueFrom as JSON with --reference"
        )
    ref = backend.Ref.model_validate({"kind": backend.name, **reference})
    binding = RowBinding("host key", new_id(), "spec.valueFrom", 1)
    kept = await backend.seal(ref, binding, None)
    figure = await _awaited(
        "resolve a reference",
        "resolution",
        seconds,
        lambda: kept,
        lambda stored: backend.resolve(stored, binding),
    )
    return [figure]


async def _sink(sink: UsageSink[Any], seconds: float) -> Figure:
    count = min(sink.batch_records, 500)
    return await _awaited(
        "write", f"batch of {count}", seconds, lambda: [_record() for _ in range(count)], sink.write
    )


async def _logger(payloads: PayloadLogger[Any], seconds: float) -> Figure:
    count = min(payloads.batch_records, 64)
    return await _awaited(
        "write",
        f"batch of {count}",
        seconds,
        lambda: [_payload() for _ in range(count)],
        payloads.write,
    )


async def _store(store: StateStore[Any], seconds: float) -> Figure:
    holds = (
        Hold("bench:requests", 1, 1_000_000_000, 60.0, "token-bucket"),
        Hold("bench:at-once", 1, 1_000_000_000, 60.0, "gauge"),
    )

    async def work(request_id: str) -> None:
        await store.reserve(request_id, holds)
        await store.settle(request_id, holds, (1, 1))

    return await _awaited("reserve and settle two limits", "request", seconds, new_id, work)


async def _guard(guard: Guard[Any], seconds: float) -> AsyncIterator[Figure]:
    who = Requester(new_id(), "bench", "bench.chat", model="bench")
    asked, told = _request("bench.chat"), _answer()

    async def judge(judgement: object) -> None:
        if inspect.isawaitable(judgement):
            await judgement

    if guard.reads_requests:
        yield await _awaited(
            "inspect a request",
            "request",
            seconds,
            lambda: asked,
            lambda request: judge(guard.inspect_request(request, who)),
        )
    if guard.reads_responses:
        yield await _awaited(
            "inspect an answer",
            "request",
            seconds,
            lambda: told,
            lambda answer: judge(guard.inspect_response(answer, who)),
        )
    if guard.reads_streams:
        stream = guard.inspect_stream(who)
        stream.event(PartStarted(0, Text("")))
        delta = TextDelta(0, " a word")
        yield _timed("inspect an event", "event", seconds, lambda: stream.event(delta))


def _payload() -> PayloadRecord:
    body = b'{"text":"' + b"x" * 4000 + b'"}'
    return PayloadRecord(request_id=new_id(), started_at=_now(), request=body, response=body)


def _record() -> UsageRecord:
    tokens = {"input": 200, "output": 180}
    return UsageRecord(
        request_id=new_id(), started_at=_now(), endpoint="bench", status=200, tokens=tokens
    )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def _timed(what: str, per: str, seconds: float, work: Work) -> Figure:
    for _ in range(WARM_UP):
        work()
    times: list[int] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and len(times) < MAX_CALLS:
        begun = time.perf_counter_ns()
        work()
        times.append(time.perf_counter_ns() - begun)
    return _figure(what, per, times)


async def _awaited(
    what: str,
    per: str,
    seconds: float,
    prepare: Callable[[], Input],
    work: Callable[[Input], Awaitable[object]],
) -> Figure:
    """As :func:`_timed`, one call after the other; what ``prepare`` takes is not counted."""
    await work(prepare())
    times: list[int] = []
    end = time.monotonic() + seconds
    while time.monotonic() < end and len(times) < MAX_CALLS:
        given = prepare()
        begun = time.perf_counter_ns()
        await work(given)
        times.append(time.perf_counter_ns() - begun)
        await asyncio.sleep(0)
    return _figure(what, per, times)


def _figure(what: str, per: str, times: list[int]) -> Figure:
    ordered = sorted(times) or [0]
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return Figure(what, per, statistics.median(ordered) / 1000, p99 / 1000, len(times))
