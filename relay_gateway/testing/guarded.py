"""A whole gateway with guards in the process of the test, before an upstream that speaks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from relay_gateway.plugin import UsageRecord, UsageSink, hookimpl
from relay_gateway.registry import Registry
from relay_gateway.server.gateway import Gateway
from relay_gateway.testing.callers import FakeCaller
from relay_gateway.testing.instances import Instances, control_of, until
from relay_gateway.testing.memory_sink import MemoryUsageSink
from relay_gateway.testing.polyglot import SpokenHost
from relay_gateway.testing.speakers import speak
from relay_gateway.testing.upstream import ScriptedUpstream

REQUEST_ID = b"x-relay-request-id: "


class Recording:
    """Hooks of a usage sink in memory, which is named ``memory``."""

    @hookimpl
    def relay_register_usage_sinks(self) -> Sequence[type[UsageSink[Any]]]:
        """The sink."""
        return [MemoryUsageSink]


class GuardedGateway:
    """A gateway whose models are named like the entries of ``hosts``. Made by :func:`guarded`.

    ``upstream`` answers in every wire format; ``admin`` is a client of the control plane.
    """

    def __init__(
        self, gateway: Gateway, upstream: ScriptedUpstream, admin: httpx.AsyncClient
    ) -> None:
        self.gateway = gateway
        self.upstream = upstream
        self.admin = admin
        self.relay_key = ""
        self._ids: dict[str, str] = {}

    async def create(self, plural: str, slug: str, **spec: Any) -> str:
        """Creates an entity; its id."""
        body = {"metadata": {"displayName": slug, "slug": slug}, "spec": spec}
        answer = await self.admin.post(f"/{plural}", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["metadata"]["id"])

    async def fill(self, hosts: Mapping[str, SpokenHost]) -> None:
        """Brings hosts, models, a policy named ``all`` and a relay key."""
        policy = await self.create("policies", "all", models=["*"])
        vendor = await self.create("providers", "acme")
        for name, spoken in hosts.items():
            host = await self.create(
                "hosts",
                name,
                baseUrl=self.upstream.url + spoken.path,
                adapter=spoken.adapter,
                wireFormats=list(spoken.wire_formats),
                noAuth=True,
                pathPrefix=f"at-{name}",
                **spoken.fields,
            )
            await self.create(
                "models", name, name=name, providerId=vendor, bindings=[{"hostId": host}]
            )
        self.relay_key = await self.mint(policy, "app")
        await self.gateway.watcher.refresh()

    async def mint(self, policy: str, name: str) -> str:
        """A relay key of the policy with this id."""
        body = {"metadata": {"displayName": name, "slug": name}, "spec": {"policyId": policy}}
        return str((await self.admin.post("/relay-keys", json=body)).json()["plaintext"])

    async def send(
        self,
        path: str,
        body: bytes,
        *,
        headers: Sequence[tuple[bytes, bytes]] = ((b"content-type", b"application/json"),),
        proxied: bool = False,
        key: str | None = None,
        method: str = "POST",
    ) -> FakeCaller:
        """One request from beginning to end."""
        credential = (key or self.relay_key).encode()
        size = (b"content-length", b"%d" % len(body))
        fields = [(b"X-Relay-API-Key", credential), size, *headers]
        if proxied:
            fields.append((b"X-Relay-Proxy-Mode", b"Proxy"))
        path, _, query = path.partition("?")
        caller = FakeCaller(method, path, query=query.encode(), headers=fields, body=body)
        caller.body_complete = True
        work = self.gateway.plane.handle(caller)
        if work is not None:
            await asyncio.get_running_loop().create_task(work)
        await caller.wait_for_end()
        return caller

    async def record(self, caller: FakeCaller) -> UsageRecord:
        """The usage record of a request, as soon as the sink has it."""
        found = caller.header_block.lower().partition(REQUEST_ID)[2].partition(b"\r\n")[0]
        sink = self.gateway.plugins.usage_sink("memory")
        assert isinstance(sink, MemoryUsageSink)
        await until(lambda: found.decode() in sink.records)
        return sink.records[found.decode()]


@asynccontextmanager
async def guarded(
    directory: Path,
    hosts: Mapping[str, SpokenHost],
    *plugins: object,
    order: Sequence[str] = (),
    guards: Mapping[str, Mapping[str, Any]] | None = None,
    **settings: Any,
) -> AsyncIterator[GuardedGateway]:
    """A gateway with the plugins that are installed and ``plugins``, of whose guards those in
    ``order`` are on duty; ``guards`` are their sections."""
    registry = Registry.discover(extra=[Recording(), *plugins])
    registry.seeds = ()
    instances = Instances(directory, registry)
    async with AsyncExitStack() as stack:
        upstream = await stack.enter_async_context(ScriptedUpstream(speak))
        stack.push_async_callback(instances.close)
        gateway = await instances.open(
            f"sqlite:///{directory / 'guarded.sqlite3'}",
            guarding={"order": tuple(order)},
            guards={name: dict(section) for name, section in (guards or {}).items()},
            **{"usage_logging": {"sinks": ("memory",)}, **settings},
        )
        admin = await stack.enter_async_context(control_of(gateway))
        world = GuardedGateway(gateway, upstream, admin)
        await world.fill(hosts)
        yield world
