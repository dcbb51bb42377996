"""Requests in proxy mode at the inference address: what they ask for, before anybody is asked."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from typing import Any

from relay_gateway.catalog.snapshot import Snapshot
from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.addresses import AddressReader
from relay_gateway.inference.requests import HeaderReader, client_request_id, user_agent
from relay_gateway.inference.routes import Found, Routes
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.guarding import Guarding
from relay_gateway.pipeline.guarding_proxy import GuardedProxy
from relay_gateway.pipeline.ports import Caller
from relay_gateway.pipeline.proxy_route import Errand
from relay_gateway.pipeline.run import Pipeline
from relay_gateway.plugin.wire import Dialect, Endpoint, UsageMeter, WireFormat

OTHER = "other"
"""What usage records call an endpoint that no wire format has."""


class ProxyMode:
    """Begins to answer requests that ask for proxy mode."""

    def __init__(
        self,
        proxy: GuardedProxy,
        pipeline: Pipeline,
        headers: HeaderReader,
        addresses: AddressReader,
        routes: Routes,
        dialects: Sequence[Dialect],
    ) -> None:
        self.proxy = proxy
        self._pipeline = pipeline
        self._headers = headers
        self._addresses = addresses
        self._plain = unmetered(Dialect)
        self.follow(routes, dialects)

    def follow(self, routes: Routes, dialects: Sequence[Dialect]) -> None:
        """Takes what is spoken from now on."""
        self._routes = routes
        self._other = [(dialect, unmetered(type(dialect))) for dialect in dialects]

    def guard(self, guarding: Guarding | None) -> None:
        """Has requests guarded from now on, or no longer."""
        self.proxy.guard(guarding)

    def is_wanted(self, caller: Caller) -> bool:
        """Whether a request asks for proxy mode, rightly or not."""
        return self._headers.names_proxy_mode(caller.headers)

    def is_probe(self, caller: Caller, snapshot: Snapshot) -> bool:
        """Whether a client only wants to know if there is something at a prefix."""
        return (
            caller.method == "HEAD"
            and snapshot.settings.proxy_mode.enabled
            and caller.path.strip("/") in snapshot.path_prefixes
        )

    def begin(
        self, caller: Caller, snapshot: Snapshot, refusal: RequestRefusedError | None
    ) -> Coroutine[Any, Any, None] | None:
        """Begins to answer a request; ``refusal`` is why none can be answered at the moment."""
        prefix, path = split_prefix(caller.path, snapshot)
        found = self._find(path)
        served = found.methods.get(caller.method) if found is not None else None
        if served is None:
            endpoint = Endpoint(OTHER, path, path, caller.method)
            wire_format = self._unmetered(caller)
        else:
            endpoint, wire_format = served.endpoint, served.wire_format
        address = self._addresses.read(caller.client_address, caller.headers)
        call = Call(endpoint, wire_format, snapshot, address)
        call.mode = "proxy"
        call.client_request_id = client_request_id(caller.headers)
        call.user_agent = user_agent(caller.headers)
        if served is not None and found is not None:
            call.path_model = found.model
        try:
            if refusal is not None:
                raise refusal
            pin = self._read_headers(call, caller)
        except RequestRefusedError as error:
            return self._pipeline.begin(call, caller, error)
        errand = Errand(prefix, path, caller.query, pin, names_model=served is not None)
        return self._pipeline.carry(call, caller, self.proxy.answer(call, caller, errand))

    def _read_headers(self, call: Call, caller: Caller) -> str | None:
        """Takes the gateway's headers into ``call``; answers the pinned host."""
        own = self._headers.read(caller.headers)
        call.tags = own.tags
        call.pin = own.pin
        if own.timeout is not None:
            call.deadline = call.received_at + own.timeout
        return own.pin

    def _find(self, path: str) -> Found | None:
        """The endpoint at ``path``; clients that have the version in their base URL ask without."""
        return self._routes.find(path) or self._routes.find(f"/v1{path}")

    def _unmetered(self, caller: Caller) -> WireFormat:
        names = caller.headers.names()
        for dialect, wire_format in self._other:
            if dialect.claims(names):
                return wire_format
        return self._plain


def split_prefix(path: str, snapshot: Snapshot) -> tuple[str | None, str]:
    """The host's prefix at the beginning of ``path``, if there is one, and the path behind it."""
    prefix, slash, rest = path[1:].partition("/")
    return (prefix, f"/{rest}") if slash and prefix in snapshot.path_prefixes else (None, path)


def unmetered(spoken: type[Dialect]) -> WireFormat:
    """What stands for the format of requests that no wire format has; errors are in the dialect
    ``spoken``."""

    class Unmetered(WireFormat):
        """Requests that are passed on and not understood."""

        name = ""
        dialect = spoken

        def meter(self) -> UsageMeter:
            return UsageMeter()

    return Unmetered()
