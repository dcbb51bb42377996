"""Upstream providers: how a kind of host is asked and how its answers are to be taken.

Providers are sans-I/O: they build requests, classify answers and define wire formats; sockets,
time, retries and cancellation are the gateway's.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from relay_gateway.plugin.base import CatalogModel, ConfigT, Plugin
from relay_gateway.plugin.waits import wait_of
from relay_gateway.plugin.wire import Endpoint, WireFormat
from relay_gateway.secret import Secret


class AdapterConfig(CatalogModel):
    """Base of a provider's ``adapterConfig``, the part of a host that only its adapter
    understands."""


@dataclass(frozen=True, slots=True)
class UpstreamHost:
    """A catalog host as its provider sees it; lives as long as the host's definition does.

    ``path`` is the path of ``baseUrl`` without a trailing slash (``""`` or ``"/v1"``), ``headers``
    the host's own static headers, already encoded (see :func:`encode_headers`).
    """

    id: str
    slug: str
    base_url: str
    path: str
    config: Any
    headers: bytes = b""
    memo: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)
    """Scratch space of the provider for this host, for what is worth computing once."""


@dataclass(slots=True)
class UpstreamCall:
    """One attempt at one host, before it is bytes.

    ``headers`` are the caller's headers whose names the provider listed in ``request_headers``, in
    order and with lower-case names; ``secret`` is ``None`` for a host without authentication;
    ``body`` already names ``upstream_model``.
    """

    host: UpstreamHost
    wire_format: str
    endpoint: Endpoint
    upstream_model: str
    secret: Secret | None
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes
    streamed: bool


@dataclass(slots=True)
class UpstreamRequest:
    """What is to be sent. ``target`` is path and query; ``headers`` is a block of encoded lines,
    each ended by CRLF, without ``Host``, ``Content-Length`` and hop-by-hop headers: those are the
    core's."""

    target: bytes
    headers: bytes = field(repr=False)  # the credential is in it
    body: bytes
    method: bytes = b"POST"


class Verdict(enum.Enum):
    """What to do with an answer that is not a success."""

    DELIVER = "deliver"
    """The caller's own mistake, or nothing that another key or host would change: hand it over."""
    CREDENTIAL = "credential"
    """This credential was refused: bench it, fetch it anew, try the next key."""
    THROTTLED = "throttled"
    """This credential has no room right now: bench it until ``retry_after``, try the next key."""
    FAILURE = "failure"
    """The host failed: count it, try the next key or host."""


class Scope(enum.Enum):
    """What a verdict is about, where an answer says it."""

    KEY = "key"
    """The credential, whatever it is used for."""
    MODEL = "model"
    """The credential together with the model: with another one it may be as good as ever."""
    HOST = "host"
    """The host itself: another credential would meet the same."""


@dataclass(frozen=True, slots=True)
class Classification:
    """A verdict with the facts it rests on.

    ``retry_after`` is in seconds (see :func:`wait_of`). ``scope`` narrows or widens what
    ``CREDENTIAL`` and ``THROTTLED`` are about; a ``FAILURE`` is always the host's.
    """

    verdict: Verdict
    retry_after: float | None = None
    scope: Scope = Scope.KEY


@dataclass(slots=True)
class LocalAnswer:
    """What a provider that needs no network answers; see :attr:`UpstreamProvider.local`.

    Header names are lower case. Closing the iterator early means that the caller has gone.
    """

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    chunks: AsyncIterator[bytes]


class UpstreamProvider(Plugin[ConfigT]):
    """Speaks to one kind of host. ``name`` is what a host's ``adapter`` says."""

    HostConfig: ClassVar[type[AdapterConfig]] = AdapterConfig
    """Model of ``adapterConfig``; the default accepts no member."""
    wire_formats: ClassVar[tuple[str, ...]]
    """Names of the formats it can be asked in, the preferred one first."""
    defines: ClassVar[tuple[type[WireFormat], ...]] = ()
    """Wire formats that this distribution brings along."""
    request_headers: ClassVar[frozenset[bytes]] = frozenset()
    """Lower-case names of caller headers that may go upstream, besides ``content-type`` and
    ``accept``."""
    response_headers: ClassVar[frozenset[bytes]] = frozenset()
    """Lower-case names of upstream headers that may go to the caller, besides ``content-type`` and
    the like."""
    local: ClassVar[bool] = False
    """Whether hosts of this provider are answered inside the process by :meth:`answer`."""

    def build_request(self, call: UpstreamCall) -> UpstreamRequest:
        """The request for one attempt."""
        return UpstreamRequest(self.target(call), self.headers(call), call.body)

    def target(self, call: UpstreamCall) -> bytes:
        """Path and query of the request; by default the host's base path and the endpoint's own."""
        return (call.host.path + call.endpoint.upstream_path).encode("ascii")

    def headers(self, call: UpstreamCall) -> bytes:
        """The header block: the caller's allowed headers, the host's static ones, the
        credential."""
        block = [b"%s: %s\r\n" % pair for pair in call.headers]
        block.append(call.host.headers)
        if call.secret is not None:
            block.append(self.credential(call.secret))
        return b"".join(block)

    def takes_usage_option(self, host: UpstreamHost) -> bool:
        """Whether ``host`` bears to be asked for usage figures in streams of a caller who did not
        ask for them (see :class:`UsageOption`); by default each does."""
        return True

    def probe(self, host: UpstreamHost, secret: Secret | None) -> UpstreamRequest:
        """The cheapest request that shows whether ``host`` answers and takes the credential: by
        default for its list of models. Never asked of a ``local`` provider.

        An operator sends it to test a host; it must cost nothing and change nothing.
        """
        credential = self.credential(secret) if secret is not None else b""
        target = f"{host.path}/models".encode("ascii")
        return UpstreamRequest(target, host.headers + credential, b"", b"GET")

    async def answer(self, call: UpstreamCall) -> LocalAnswer:
        """The answer of a ``local`` provider. May raise :class:`UpstreamError` like a real
        exchange."""
        raise NotImplementedError

    def credential(self, secret: Secret) -> bytes:
        """The header line that carries the credential; bearer by default."""
        return b"authorization: Bearer %s\r\n" % secret.reveal().encode("ascii")

    def classify(self, status: int, headers: Mapping[bytes, bytes], body: bytes) -> Classification:
        """What an answer with a status of 300 or more means; ``body`` is its beginning (≤ 64
        KiB)."""
        if status in (401, 403):
            return Classification(Verdict.CREDENTIAL)
        if status == 429:
            return Classification(Verdict.THROTTLED, wait_of(headers))
        if status in (408, 409) or status >= 500:
            return Classification(Verdict.FAILURE, wait_of(headers))
        return Classification(Verdict.DELIVER)


def encode_headers(headers: Mapping[str, str]) -> bytes:
    """Header lines ready to send. Raises ``ValueError`` for what must not be in one; the message
    names the header, never its value."""
    lines = []
    for name, value in headers.items():
        if not name or not all(
            c.isascii() and (c.isalnum() or c in "!#$%&'*+-.^_`|~") for c in name
        ):
            raise ValueError(f"{name!r} is not a header name")
        if not value.isascii() or not value.isprintable() or value != value.strip():
            raise ValueError(
                f"the value of header {name!r} has characters that a header cannot carry"
            )
        lines.append(f"{name.lower()}: {value}\r\n")
    return "".join(lines).encode("ascii")
