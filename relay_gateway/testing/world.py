"""A small catalog and the pipeline over it, with fakes at both ends."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from relay_gateway.catalog.live import LiveCatalog
from relay_gateway.catalog.snapshot import Snapshot
from relay_gateway.errors import RequestRefusedError, UpstreamError
from relay_gateway.http.outgoing_head import OutgoingRequest
from relay_gateway.http.target import Target
from relay_gateway.inference.answers import AnswerWriter
from relay_gateway.limits.choose import in_memory
from relay_gateway.limits.limiter import Limiter
from relay_gateway.pipeline.admit import Admission
from relay_gateway.pipeline.authenticate import Authenticator
from relay_gateway.pipeline.budget_gate import BudgetGate
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.capture import Payloads
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.pipeline.dispatch import Dispatcher
from relay_gateway.pipeline.guarding_proxy import GuardedProxy
from relay_gateway.pipeline.guarding_run import GuardedPipeline
from relay_gateway.pipeline.keypool import KeyPools
from relay_gateway.pipeline.proxied_head import HeadSieve
from relay_gateway.pipeline.retries import Backoff
from relay_gateway.pipeline.wording import Wire
from relay_gateway.plugin import PayloadRecord, PluginConfig, UpstreamRequest, UsageRecord
from relay_gateway.testing.callers import FakeCaller
from relay_gateway.testing.catalog import CatalogDraft, PlainFormat, PlainProvider, TableBackend
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.exchanges import FakeExchange

PREFIXES = ("X-Relay-", "X-SVC-")
MAX_REQUEST_BYTES = 1000
Reply = FakeExchange | UpstreamError | None


class FakeClient:
    """An upstream client that replies from a list; ``None`` hangs until it is cancelled."""

    def __init__(self) -> None:
        self.replies: list[Reply] = []
        self.sent: list[tuple[Target, UpstreamRequest]] = []
        self.cancelled = 0
        self.asked = asyncio.Event()

    def begin_now(self, target: Target, request: OutgoingRequest) -> None:
        """No connection is ever idle here."""

    async def begin(self, target: Target, request: OutgoingRequest) -> OutgoingRequest:
        """Notes what is sent."""
        self.sent.append((target, _as_built(request)))
        self.asked.set()
        return request

    async def answer(
        self, target: Target, request: OutgoingRequest, exchange: OutgoingRequest
    ) -> FakeExchange:
        """The next reply."""
        reply = self.replies.pop(0)
        if isinstance(reply, UpstreamError):
            raise reply
        if reply is None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        assert reply is not None
        return reply


class ListedLedger:
    """Keeps what is announced in a list."""

    def __init__(self) -> None:
        self.full = False
        self.opened: list[Any] = []

    def announce(self, request_id: str, opened: object) -> None:
        """Notes the beginning of a request."""
        self.opened.append(opened)

    def hold(self) -> None:
        """Does nothing: a list takes no writes."""

    def release(self) -> None:
        """Does nothing."""


class PipelineWorld:
    """Two hosts, two keys on the first and one on the second, one model bound to both."""

    def __init__(self, directory: Path) -> None:
        self.clock = FakeClock()
        self.ledger = ListedLedger()
        self.backend = TableBackend({"k1": "sk-one", "k2": "sk-two", "k3": "sk-three"}, directory)
        self.provider = PlainProvider(PluginConfig(), plugin_context(directory))
        self.draft = CatalogDraft()
        self.vendor = self.draft.add("provider", "acme", {})
        self.east = self.draft.host("east")
        self.west = self.draft.host("west")
        self.policy = self.draft.policy()
        self.model = self.draft.model("m", [self.east, self.west], provider_id=self.vendor)
        self.keys = [
            self.draft.host_key("k1", self.east, self.policy),
            self.draft.host_key("k2", self.east, self.policy),
            self.draft.host_key("k3", self.west, self.policy),
        ]
        self.relay_key = self.draft.relay_key("app", self.policy, tags={"team": "a"})
        self.live = LiveCatalog()
        self.client = FakeClient()
        self.pools = KeyPools(self.clock)
        self.credentials = Credentials({"table": self.backend}, self.clock)
        self.records: list[UsageRecord] = []
        self.failures: list[str] = []
        self.pauses: list[float] = []
        """How long the gateway waited before it asked a host again; here that takes no time."""
        self.payload_records: list[PayloadRecord] = []
        self.payloads = Payloads(self.payload_records.append)
        self.limit_by(in_memory(self.clock))
        self.publish()

    def limit_by(self, limiter: Limiter, budgets: BudgetGate | None = None) -> None:
        """Has limits counted by ``limiter`` from now on, and ``budgets`` kept; a pipeline before
        this is left alone."""
        self.limiter = limiter
        self.admission = Admission(limiter, budgets)
        self.pipeline = self._pipeline()

    def _pipeline(self) -> GuardedPipeline:
        providers = {"plain": self.provider}
        answers = AnswerWriter("X-Relay-", providers)
        self.dispatcher = dispatcher = Dispatcher(
            providers,
            self.client,  # type: ignore[arg-type]  # the one method that is called fits
            self.credentials,
            self.pools,
            lambda name, _: self.failures.append(name),
            clock=self.clock,
            backoff=Backoff(self._pause),
            admission=self.admission,
            ledger=self.ledger,
        )
        return GuardedPipeline(
            self.live,
            Authenticator(PREFIXES),
            dispatcher,
            self.records.append,
            Wire(answers.answer_headers, answers.refuse, answers.retell),
            MAX_REQUEST_BYTES,
            payloads=self.payloads,
        )

    async def _pause(self, seconds: float) -> None:
        self.pauses.append(seconds)

    def proxy(self) -> GuardedProxy:
        """What answers requests in proxy mode, with the same fakes."""
        return GuardedProxy(
            self.client,  # type: ignore[arg-type]  # as above
            {"plain": self.provider},
            Authenticator(PREFIXES),
            HeadSieve(PREFIXES),
            self.records.append,
            AnswerWriter("X-Relay-", {"plain": self.provider}).gateway,
            self.payloads,
            admission=self.admission,
            ledger=self.ledger,
            breakers=self.dispatcher.breakers,
        )

    def rate_limit(self, slug: str, *rules: Mapping[str, Any]) -> str:
        """A rate limit of these ``rules``; its id."""
        return self.draft.add("rate limit", slug, {"rules": list(rules)})

    def change(self, entity_id: str, **spec: Any) -> None:
        """Changes the spec of an entity, and publishes it."""
        for row in self.draft.rows:
            if entity_id in (row.id, row.slug):
                row.spec.update(spec)
        self.publish()

    def snapshot(self) -> Snapshot:
        """The draft as it is now."""
        return self.draft.snapshot({"plain": self.provider}, {"table": self.backend})

    def publish(self) -> None:
        """Makes the draft as it is now the current snapshot."""
        self.live.swap(self.snapshot())

    def caller(
        self,
        body: bytes | None = b'{"model":"m"}',
        *,
        key: str | None = None,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> FakeCaller:
        """A request with the relay key of the world, or with ``key``."""
        bearer = key if key is not None else self.relay_key.plaintext.reveal()
        return FakeCaller(
            path="/v1/plain",
            body=body,
            headers=[(b"Authorization", b"Bearer " + bearer.encode()), *headers],
        )

    def call(self, caller: FakeCaller) -> Call:
        """The state that the inference plane would begin with."""
        wire_format = PlainFormat()
        endpoint = wire_format.endpoints[0]
        return Call(endpoint, wire_format, self.live.current, "127.0.0.1")

    async def run(self, caller: FakeCaller, *replies: Reply) -> UsageRecord:
        """Answers ``caller`` while the upstream replies so; the one record that came of it."""
        self.client.replies = list(replies)
        await self.handle(caller)
        await caller.wait_for_end()
        return self.record()

    async def handle(
        self,
        caller: FakeCaller,
        call: Call | None = None,
        refused: RequestRefusedError | None = None,
    ) -> None:
        """Answers ``caller`` as a server would have it done."""
        work = self.pipeline.begin(call or self.call(caller), caller, refused)
        if work is not None:
            await work
        else:
            await caller.until_run()

    def record(self) -> UsageRecord:
        """The only record so far."""
        assert len(self.records) == 1
        return self.records[0]


def _as_built(request: OutgoingRequest) -> UpstreamRequest:
    line, _, rest = request.start.partition(b"\r\n")
    return UpstreamRequest(line.split(b" ")[1], rest.partition(b"\r\n")[2], request.body)


def json_answer(status: int = 200, body: bytes | None = b"3:5", **headers: str) -> FakeExchange:
    """A whole answer; ``_`` in the name of a header stands for ``-``."""
    fields = {"content-type": "application/json", **headers}
    encoded = [(name.replace("_", "-").encode(), v.encode()) for name, v in fields.items()]
    return FakeExchange(status, encoded, body)


def open_stream() -> FakeExchange:
    """A stream of events to push."""
    return FakeExchange(200, [(b"content-type", b"text/event-stream")], None)
