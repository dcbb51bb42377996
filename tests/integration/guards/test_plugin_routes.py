"""The table of plugins by route, held to what plugins of each kind really see."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import pytest
import pytest_asyncio

from relay_gateway.plugin import (
    Grant,
    Hold,
    PayloadLogger,
    PluginConfig,
    ResolvedSecret,
    RowBinding,
    Secret,
    SecretBackend,
    SecretRef,
    StateStore,
    hookimpl,
)
from relay_gateway.testing.guarded import GuardedGateway, guarded
from relay_gateway.testing.instances import until
from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.memory_logger import MemoryPayloadLogger
from relay_gateway.testing.script import Script, json_response, sse_response
from relay_gateway.testing.speakers import speak

from .watchers import Hooks

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))
from docs.plugin_routes import COLUMNS, Row, rows  # noqa: E402 - found by the line above

pytestmark = pytest.mark.asyncio(loop_scope="module")
RESOLVED = "sk-of-the-recording-backend"
BOUNDARY = "bound"
PARTS = {"request": "guard: request", "response": "guard: whole answer", "stream": "guard: stream"}
ENTRIES = {"openai": "/v1", "anthropic": "", "gemini": ""}
TRANSLATED = {"openai": "anthropic.messages", "anthropic": "openai.chat", "gemini": "openai.chat"}
MESSAGES = [{"role": "user", "content": "Hello"}]
BODIES: dict[str, dict[str, Any]] = {
    "openai.responses": {"input": "Hello"},
    "gemini.generate": {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
    "openai.chat": {"messages": MESSAGES, "max_tokens": 9},
    "anthropic.messages": {"messages": MESSAGES, "max_tokens": 9},
}


class RecordedRef(SecretRef):
    """Leads to the only secret there is."""

    kind: Literal["recorded"] = "recorded"


class RecordedBackend(SecretBackend[PluginConfig]):
    name = "recorded"
    Ref = RecordedRef

    async def resolve(self, ref: SecretRef, binding: RowBinding) -> ResolvedSecret:
        return ResolvedSecret(Secret(RESOLVED))


class StoreConfig(PluginConfig):
    url: str = ""


class RecordedStore(StateStore[StoreConfig]):
    name = "recorded"
    schemes = ("recorded",)
    Config = StoreConfig
    asked: ClassVar[set[str]] = set()

    async def reserve(self, request_id: str, holds: Sequence[Hold]) -> Grant:
        self.asked.add(request_id)
        return Grant(-1, 0.0, (1,) * len(holds), (0.0,) * len(holds))

    async def settle(self, request_id: str, holds: Sequence[Hold], used: Sequence[int]) -> None:
        """Forgets it."""


class Recorded:
    """Hooks of the plugins above."""

    @hookimpl
    def relay_register_secret_backends(self) -> Sequence[type[SecretBackend[Any]]]:
        return [RecordedBackend]

    @hookimpl
    def relay_register_state_stores(self) -> Sequence[type[StateStore[Any]]]:
        return [RecordedStore]

    @hookimpl
    def relay_register_payload_loggers(self) -> Sequence[type[PayloadLogger[Any]]]:
        return [MemoryPayloadLogger]


def answer(request: SeenRequest) -> Script:
    """As the speaking upstream, which does not know every route."""
    known = {"chat/completions", "messages", "responses", "generateContent"}
    path = request.target.partition("?")[0]
    if any(path.endswith(one) for one in (*known, "streamGenerateContent", "embeddings")):
        return speak(request)
    if b'"stream": true' in request.body or b"\r\n\r\ntrue\r\n" in request.body:
        return sse_response([b'data: {"type":"odd"}\n\n', b"data: [DONE]\n\n"])
    return json_response(200, {"told": "something"})


class World:
    """Every route, and what each kind of plugin has seen of a request."""

    def __init__(self, gateway: GuardedGateway) -> None:
        self.gateway = gateway
        self.built: set[str] = set()
        for provider in gateway.gateway.plugins.providers.values():
            self._record_builds(provider)

    def _record_builds(self, provider: Any) -> None:
        build = provider.build_request

        def recording(call: Any) -> Any:
            self.built.add(provider.name)
            return build(call)

        provider.build_request = recording

    async def fill(self) -> None:
        """A host for each adapter, and one for each format to translate into."""
        world = self.gateway
        many = {"meter": "requests", "amount": 1000, "windowSeconds": 3600}
        limit = await world.create("rate-limits", "many", rules=[many])
        limits = [{"rateLimitId": limit}]
        policy = await world.create("policies", "routes", models=["*"], rateLimits=limits)
        vendor = await world.create("providers", "routes")
        plugins = world.gateway.plugins
        targets = {name: (name, [*plugins.providers[name].wire_formats]) for name in ENTRIES}
        for spoken in set(TRANSLATED.values()):
            adapter = spoken.partition(".")[0]
            targets[f"only-{adapter}"] = adapter, [spoken]
        for slug, (adapter, formats) in targets.items():
            host = await world.create(
                "hosts",
                slug,
                baseUrl=world.upstream.url + ENTRIES[adapter],
                adapter=adapter,
                wireFormats=formats,
                pathPrefix=f"at-{slug}",
            )
            value = {"kind": "recorded"}
            await world.create("host-keys", slug, hostId=host, policyId=policy, valueFrom=value)
            bindings = [{"hostId": host}]
            await world.create("models", slug, name=slug, providerId=vendor, bindings=bindings)
        sections = {
            "payload-logging": {"enabled": True, "loggers": ["memory"]},
            "proxy-mode": {"enabled": True},
        }
        for section, fields in sections.items():
            put = await world.admin.put(f"/settings/{section}", json=fields)
            assert put.status_code == 200, put.text
        spec = {"policyId": policy, "payloadLogging": True}
        body = {"metadata": {"displayName": "routes"}, "spec": spec}
        world.relay_key = (await world.admin.post("/relay-keys", json=body)).json()["plaintext"]
        await world.gateway.watcher.refresh()

    async def ran(self, row: Row) -> set[str]:
        """Sends a request and gives the kinds of plugin that have seen it."""
        self.built.clear()
        world = self.gateway
        world.upstream.ledger.clear()
        path, kind, body = _asked(row)
        headers = [(b"content-type", kind.encode()), (b"authorization", b"Bearer own")]
        if row.mode != "proxy":
            del headers[1]
        caller = await world.send(path, body, headers=headers, proxied=row.mode == "proxy")
        assert caller.status == 200, (row.title, row.mode, caller.body)
        record = await world.record(caller)
        assert record.streamed is row.streamed or row.served is None
        found = {PARTS[one.phase] for one in record.guards if one.did == "allowed"}
        return found | {"usage sink"} | await self._seen(record.request_id)

    async def _seen(self, request_id: str) -> set[str]:
        plugins, (sent,) = self.gateway.gateway.plugins, self.gateway.upstream.ledger
        payloads = plugins.payload_logger("memory")
        assert isinstance(payloads, MemoryPayloadLogger)
        await until(lambda: request_id in payloads.records)
        found = {"payload logger"}
        if request_id in RecordedStore.asked:
            found.add("state store")
        if self.built:
            found.add("upstream provider")
        if any(RESOLVED.encode() in value for _, value in sent.headers):
            found.add("secret backend")
        return found


def _asked(row: Row) -> tuple[str, str, bytes]:
    """Path, type and body of a request that takes the way of a row."""
    if row.served is None:
        return "/at-openai/v1/files", "application/json", b'{"purpose": "batch"}'
    endpoint, wire_format = row.served.endpoint, row.served.wire_format.name
    family = wire_format.partition(".")[0]
    model = family
    if row.mode == "translated":
        model = f"only-{TRANSLATED[family].partition('.')[0]}"
    path = endpoint.path.replace("{model}", model)
    if row.mode == "proxy":
        path = f"/at-{family}{path}"
    if endpoint.needs_query:
        path = f"{path}?{endpoint.needs_query}"
    if endpoint.body == "form":
        return path, f"multipart/form-data; boundary={BOUNDARY}", _form(model, row.streamed)
    body = dict(BODIES.get(wire_format, {"input": "Hello", "prompt": "Hello"}))
    if "{model}" not in endpoint.path:
        body |= {"model": model} | ({"stream": True} if row.streamed else {})
    return path, "application/json", json.dumps(body).encode()


def _form(model: str, streamed: bool) -> bytes:
    fields = {"model": model} | ({"stream": "true"} if streamed else {})
    parts = [
        f'--{BOUNDARY}\r\ncontent-disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    return ("".join(parts) + f"--{BOUNDARY}--\r\n").encode()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    place = tmp_path_factory.mktemp("routes")
    hooks = Hooks("recorded", on_failure="open")
    async with guarded(
        place, {}, Recorded(), hooks, order=["recorded"], state_url="recorded://here"
    ) as gateway:
        gateway.upstream.answer = answer
        world = World(gateway)
        await world.fill()
        yield world


async def test_every_route_goes_through_the_plugins_that_the_table_says(world: World) -> None:
    served = world.gateway.gateway.plugins.endpoints
    own = [one for one in served if one.wire_format.name.partition(".")[0] in ENTRIES]
    wrong = []
    table = list(rows(own))
    for row in table:
        ran = await world.ran(row)
        if ran != row.ran:
            wrong.append((row.title, row.mode, row.streamed, sorted(ran ^ row.ran)))
    assert wrong == []
    assert {one for row in table for one in row.ran} == set(COLUMNS)


async def test_every_route_of_the_repository_is_in_the_table(world: World) -> None:
    page = (ROOT / "docs" / "reference" / "plugin-routes.md").read_text("utf-8")
    for row in rows(world.gateway.gateway.plugins.endpoints):
        answer = "stream" if row.streamed else "whole"
        assert f"| `{row.title}` | {row.mode} | {answer} |" in page
