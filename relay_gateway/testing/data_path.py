"""The whole data path in one event loop: server, pipeline and client over a small catalog, on real
sockets, with the test at both ends."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from relay_gateway.catalog.live import LiveCatalog
from relay_gateway.http.addresses import AddressReader
from relay_gateway.http.body_room import BodyRoom
from relay_gateway.http.client import HttpClient
from relay_gateway.http.connection import ServerConnection
from relay_gateway.http.limits import ServerLimits
from relay_gateway.http.plane import Plane
from relay_gateway.inference.answers import AnswerWriter
from relay_gateway.inference.plane import InferencePlane
from relay_gateway.inference.requests import HeaderReader
from relay_gateway.pipeline.authenticate import Authenticator
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.pipeline.dispatch import Dispatcher
from relay_gateway.pipeline.keypool import KeyPools
from relay_gateway.pipeline.run import Pipeline, Wire
from relay_gateway.plugin import PluginConfig, SystemClock, UsageRecord
from relay_gateway.registry.plugins import ServedEndpoint
from relay_gateway.testing.catalog import CatalogDraft, PlainFormat, PlainProvider, TableBackend
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.fed_connection import ServerBook
from relay_gateway.testing.inference_server import refuse_in_plain_text

PREFIXES = ("X-Relay-",)
MAX_REQUEST_BYTES = 32 * 1024 * 1024


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
    """Serves the plain format on a loopback port; ``hosts`` maps model names to upstream URLs.

    Each model has one host and one key. ``records`` are the usage records so far. Use as an async
    context manager, in the event loop of the test.
    """

    def __init__(
        self,
        directory: Path,
        hosts: Mapping[str, str],
        *,
        limits: ServerLimits | None = None,
        **host_fields: Any,
    ) -> None:
        self.port = 0
        self.records: list[UsageRecord] = []
        self._book = ServerBook()
        self._limits = limits or ServerLimits()
        self._clock = SystemClock()
        self._backend = TableBackend({name: f"sk-{name}" for name in hosts}, directory)
        self._provider = PlainProvider(PluginConfig(), plugin_context(directory))
        self._live = LiveCatalog()
        draft = CatalogDraft()
        vendor, policy = draft.add("provider", "acme", {}), draft.policy()
        for name, url in hosts.items():
            host = draft.host(name, baseUrl=url, **host_fields)
            draft.model(name, [host], provider_id=vendor)
            draft.host_key(name, host, policy)
        self.relay_key = draft.relay_key("app", policy).plaintext.reveal()
        self._live.swap(draft.snapshot({"plain": self._provider}, {"table": self._backend}))
        self._pools = KeyPools(self._clock)
        self._server: asyncio.Server | None = None
        self._client: HttpClient
        self._room: BodyRoom

    async def __aenter__(self) -> Self:
        self._client = HttpClient()
        plane = Plane(self._plane().handle, refuse_in_plain_text, self._limits)
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
        for _ in range(1000):
            if self._room.held >= size:
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"only {self._room.held} bytes are held")

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

    def _plane(self) -> InferencePlane:
        providers = {"plain": self._provider}
        answers = AnswerWriter(PREFIXES[0], providers)
        authenticator = Authenticator(PREFIXES)
        credentials = Credentials({"table": self._backend}, self._clock)
        dispatcher = Dispatcher(
            providers, self._client, credentials, self._pools, lambda _name, _error: None
        )
        pipeline = Pipeline(
            self._live,
            authenticator,
            dispatcher,
            lambda record, _: self.records.append(record),
            Wire(answers.answer_headers, answers.refuse),
            MAX_REQUEST_BYTES,
        )
        wire_format = PlainFormat()
        endpoints = [ServedEndpoint(one, wire_format) for one in wire_format.endpoints]
        headers, addresses = HeaderReader(PREFIXES), AddressReader(())
        return InferencePlane(
            self._live, pipeline, authenticator, answers, headers, addresses, endpoints, ()
        )
