"""The whole data path in one event loop: server, pipeline and client over a small catalog, on real
sockets, with the test at both ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from msgspec.structs import replace

from relay_gateway.catalog.live import LiveCatalog
from relay_gateway.catalog.sections import DEFAULTS, RuntimeSettings
from relay_gateway.http.addresses import AddressReader
from relay_gateway.http.body_room import BodyRoom
from relay_gateway.http.client import HttpClient
from relay_gateway.http.connection import ServerConnection
from relay_gateway.http.limits import ServerLimits
from relay_gateway.http.plane import Plane
from relay_gateway.inference.answers import AnswerWriter
from relay_gateway.inference.plane import InferencePlane
from relay_gateway.inference.requests import HeaderReader
from relay_gateway.pipeline.announce import Ledger
from relay_gateway.pipeline.authenticate import Authenticator
from relay_gateway.pipeline.capture import MEMORY_BYTES, Payloads
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.pipeline.dispatch import Dispatcher
from relay_gateway.pipeline.guarding_proxy import GuardedProxy
from relay_gateway.pipeline.guarding_run import GuardedPipeline
from relay_gateway.pipeline.keypool import KeyPools
from relay_gateway.pipeline.proxied_head import HeadSieve
from relay_gateway.pipeline.wording import Wire
from relay_gateway.plugin import (
    PayloadRecord,
    PluginConfig,
    SystemClock,
    UpstreamProvider,
    UsageRecord,
)
from relay_gateway.registry.plugins import ServedEndpoint
from relay_gateway.testing.catalog import CatalogDraft, PlainProvider, TableBackend
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.fed_connection import ServerBook
from relay_gateway.testing.inference_server import refuse_in_plain_text

PREFIXES = ("X-Relay-",)
MAX_REQUEST_BYTES = 32 * 1024 * 1024
PAYLOAD_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Holdings:
    """What the process and the gateway hold at one moment; equal before and after means no leak."""

    descriptors: int
    tasks: int
    connections: int
    handlers: int
    drawn_keys: int
    taken_slots: int


class DataPath:
    """Serves the plain format, or those of another ``provider``, on a loopback port; ``hosts`` maps
    model names to upstream URLs.

    Each model has one host and one key, and is called there as ``upstream_names`` says, or the
    same. ``records`` are the usage records so far, ``payload_records`` those of requests whose
    bodies were captured, which the relay key asks for with ``payload_logging`` and which may hold
    ``payload_memory`` bytes together. ``ledger`` is told of requests that are about to be sent. Use
    as an async context manager, in the event loop of the test.
    """

    def __init__(
        self,
        directory: Path,
        hosts: Mapping[str, str],
        *,
        limits: ServerLimits | None = None,
        provider: UpstreamProvider[Any] | None = None,
        upstream_names: Mapping[str, str] = MappingProxyType({}),
        settings: RuntimeSettings = DEFAULTS,
        payload_logging: bool = False,
        payload_memory: int = MEMORY_BYTES,
        ledger: Ledger | None = None,
        **host_fields: Any,
    ) -> None:
        self.port = 0
        self._ledger = ledger
        self.records: list[UsageRecord] = []
        self.payload_records: list[PayloadRecord] = []
        self._book = ServerBook()
        self._limits = limits or ServerLimits()
        self._payload_memory = payload_memory
        self._clock = SystemClock()
        self._backend = TableBackend({name: f"sk-{name}" for name in hosts}, directory)
        self._provider = provider or PlainProvider(PluginConfig(), plugin_context(directory))
        self._live = LiveCatalog()
        draft = CatalogDraft()
        vendor, policy = draft.add("provider", "acme", {}), draft.policy()
        for name, url in hosts.items():
            host = draft.host(name, baseUrl=url, adapter=self._provider.name, **host_fields)
            binding = {"hostId": host, "upstreamName": upstream_names.get(name, name)}
            draft.model(name, [host], provider_id=vendor, name=name, bindings=[binding])
            draft.host_key(name, host, policy)
        minted = draft.relay_key("app", policy, payloadLogging=payload_logging)
        self.relay_key = minted.plaintext.reveal()
        self.draft = draft
        """The catalog; what is changed in it counts from :meth:`publish` on."""
        self.settings = settings
        self.publish()
        self._pools = KeyPools(self._clock)
        self._server: asyncio.Server | None = None
        self._client: HttpClient
        self._inference: InferencePlane
        self._dispatcher: Dispatcher
        self._room: BodyRoom

    async def __aenter__(self) -> Self:
        self._client = HttpClient()
        self.payloads = Payloads(self.payload_records.append, self._payload_memory)
        self._inference = self._plane()
        plane = Plane(self._inference.handle, refuse_in_plain_text, self._limits)
        self._room = plane.room
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: ServerConnection(plane, self._book, loop), "127.0.0.1", 0, backlog=2048
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *exc: object) -> None:
        if self._server is not None:
            self._server.close()
        for connection in list(self._book.connections):
            connection.shutdown()
        for task in list(self._book.tasks):
            task.cancel()
        await asyncio.gather(*self._book.tasks, return_exceptions=True)
        await self._client.aclose()
        await self.payloads.aclose(PAYLOAD_SECONDS)

    def interrupt(self) -> None:
        """Ends what is under way without a task, as a stopping gateway does."""
        self._inference.interrupt()

    def revoke_relay_key(self) -> None:
        """Publishes the catalog without the relay key."""
        self.draft.rows = [row for row in self.draft.rows if row.kind != "relay key"]
        self.publish()

    def request(self, model: str, *, stream: bool = False, extra: str = "") -> bytes:
        """A whole request for ``model``; ``extra`` goes into the body as it is."""
        streamed = ',"stream":true' if stream else ""
        body = f'{{"model":"{model}"{streamed}{extra}}}'.encode()
        return self.head(len(body)) + body

    def head(self, length: int) -> bytes:
        """The head of a request with a body of ``length`` bytes."""
        return (
            f"POST /v1/plain HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {self.relay_key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        ).encode()

    def holdings(self) -> Holdings:
        """What is held right now."""
        pools = list(self._client._pools.values())  # noqa: SLF001 - shown nowhere outside
        states = self._pools._states.values()  # noqa: SLF001 - the same
        return Holdings(
            descriptors=sum(1 for _ in Path("/proc/self/fd").iterdir()),
            tasks=len(asyncio.all_tasks()),
            connections=len(self._book.connections),
            handlers=len(self._book.tasks),
            drawn_keys=sum(state.in_flight for state in states),
            taken_slots=sum(pool._open - len(pool._idle) for pool in pools),  # noqa: SLF001
        )

    @property
    def bodies_held(self) -> int:
        """How many bytes of large request bodies are held."""
        return self._room.held

    async def until_held(self, size: int) -> None:
        """Waits until ``size`` bytes of large bodies are held, about five seconds at most."""
        await _until(lambda: self._room.held, size, "bytes are held")

    async def until_recorded(self, count: int = 1) -> UsageRecord:
        """Waits for ``count`` usage records, about five seconds at most; the first of them."""
        await _until(lambda: len(self.records), count, "usage records")
        return self.records[0]

    async def until_begun(self, count: int) -> None:
        """Waits until ``count`` requests have come, about five seconds at most."""
        await _until(lambda: self._book.total_requests, count, "requests")

    async def until_captured(self, count: int = 1) -> None:
        """Waits for ``count`` payloads, about five seconds at most."""
        await _until(lambda: len(self.payload_records), count, "payloads")

    async def until_left(self) -> None:
        """Waits until every caller's connection is closed, about five seconds at most."""
        await _until(lambda: -len(self._book.connections), 0, "connections are closed")

    @property
    def left_alone(self) -> set[str]:
        """The hosts that are left alone for their failures, by slug."""
        troubled = self._dispatcher.breakers.troubled.values()
        return {breaker.host.slug for breaker in troubled if not breaker.is_closed}

    def let_be_tried(self) -> None:
        """Ejects every host, for a time that is over at once: the next request may try it."""
        breakers, now = self._dispatcher.breakers, self._clock.monotonic()
        for host in self._live.current.hosts.values():
            while not (breaker := breakers.troubled.get(host.id)) or breaker.is_closed:
                breakers.failed(host, now, "reset")
            breaker.until = now
            breaker.release()

    def forget_failures(self) -> None:
        """Puts every host back to use as if it had never failed, for tests whose hosts only do."""
        for host_id in list(self._dispatcher.breakers.troubled):
            self._dispatcher.breakers.reset(host_id)

    def close_idle_connections(self) -> None:
        """Closes the connections to upstreams that nobody uses at the moment."""
        for pool in self._client._pools.values():  # noqa: SLF001 - would happen by itself later
            pool.close_idle()

    async def until(self, holdings: Holdings, *, seconds: float = 5.0) -> None:
        """Waits until no more is held than ``holdings``.

        Raises ``AssertionError`` with what is held instead when that takes too long.
        """
        deadline = asyncio.get_running_loop().time() + seconds
        while self._more_than(holdings):
            now = self.holdings()
            assert asyncio.get_running_loop().time() < deadline, f"{now} instead of {holdings}"
            self.close_idle_connections()
            await asyncio.sleep(0.01)

    def _more_than(self, holdings: Holdings) -> bool:
        now = self.holdings()
        return any(getattr(now, one) > getattr(holdings, one) for one in Holdings.__slots__)

    def publish(self) -> None:
        """Makes the catalog and the settings as they are now the current snapshot."""
        snapshot = self.draft.snapshot(self._providers, {"table": self._backend})
        self._live.swap(replace(snapshot, settings=self.settings))

    @property
    def _providers(self) -> dict[str, UpstreamProvider[Any]]:
        return {self._provider.name: self._provider}

    def _plane(self) -> InferencePlane:
        providers = self._providers
        answers = AnswerWriter(PREFIXES[0], providers)
        authenticator = Authenticator(PREFIXES)
        credentials = Credentials({"table": self._backend}, self._clock)
        self._dispatcher = dispatcher = Dispatcher(
            providers,
            self._client,
            credentials,
            self._pools,
            lambda _name, _error: None,
            ledger=self._ledger,
        )
        pipeline = GuardedPipeline(
            self._live,
            authenticator,
            dispatcher,
            self.records.append,
            Wire(answers.answer_headers, answers.refuse, answers.retell),
            MAX_REQUEST_BYTES,
            payloads=self.payloads,
        )
        formats = [defined() for defined in self._provider.defines]
        endpoints = [ServedEndpoint(one, spoken) for spoken in formats for one in spoken.endpoints]
        headers, addresses = HeaderReader(PREFIXES), AddressReader(())
        dialects = [dialect() for dialect in {spoken.dialect for spoken in formats}]
        return InferencePlane(
            self._live,
            pipeline,
            authenticator,
            answers,
            headers,
            addresses,
            endpoints,
            dialects,
            GuardedProxy(
                self._client,
                providers,
                authenticator,
                HeadSieve(PREFIXES),
                self.records.append,
                answers.gateway,
                self.payloads,
                breakers=dispatcher.breakers,
            ),
        )


async def _until(count: Callable[[], int], least: int, what: str) -> None:
    for _ in range(1000):
        if count() >= least:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"{count()} {what}, not {least}")
