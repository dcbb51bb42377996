"""A small catalog and the pipeline over it, with fakes at both ends."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from relay_gateway.catalog.live import LiveCatalog
from relay_gateway.catalog.snapshot import Pricing, Snapshot
from relay_gateway.errors import UpstreamError
from relay_gateway.http.target import Target
from relay_gateway.inference.answers import AnswerWriter
from relay_gateway.pipeline.authenticate import Authenticator
from relay_gateway.pipeline.call import Call
from relay_gateway.pipeline.credentials import Credentials
from relay_gateway.pipeline.dispatch import Dispatcher
from relay_gateway.pipeline.keypool import KeyPools
from relay_gateway.pipeline.run import Pipeline, Wire
from relay_gateway.plugin import PluginConfig, UpstreamRequest, UsageRecord
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

    async def send(self, target: Target, request: UpstreamRequest) -> FakeExchange:
        """The next reply."""
        self.sent.append((target, request))
        self.asked.set()
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


class PipelineWorld:
    """Two hosts, two keys on the first and one on the second, one model bound to both."""

    def __init__(self, directory: Path) -> None:
        self.clock = FakeClock()
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
        self.records: list[tuple[UsageRecord, Pricing | None]] = []
        self.failures: list[str] = []
        self.pipeline = self._pipeline()
        self.publish()

    def _pipeline(self) -> Pipeline:
        providers = {"plain": self.provider}
        answers = AnswerWriter("X-Relay-", providers)
        dispatcher = Dispatcher(
            providers,
            self.client,  # type: ignore[arg-type]  # the one method that is called fits
            self.credentials,
            self.pools,
            lambda name, _: self.failures.append(name),
        )
        return Pipeline(
            self.live,
            Authenticator(PREFIXES),
            dispatcher,
            lambda record, pricing: self.records.append((record, pricing)),
            Wire(answers.answer_headers, answers.refuse),
            MAX_REQUEST_BYTES,
        )

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
        await self.pipeline.run(self.call(caller), caller)
        await caller.wait_for_end()
        return self.record()

    def record(self) -> UsageRecord:
        """The only record so far."""
        assert len(self.records) == 1
        return self.records[0][0]


def json_answer(status: int = 200, body: bytes | None = b"3:5", **headers: str) -> FakeExchange:
    """A whole answer; ``_`` in the name of a header stands for ``-``."""
    fields = {"content-type": "application/json", **headers}
    encoded = [(name.replace("_", "-").encode(), v.encode()) for name, v in fields.items()]
    return FakeExchange(status, encoded, body)


def open_stream() -> FakeExchange:
    """A stream of events to push."""
    return FakeExchange(200, [(b"content-type", b"text/event-stream")], None)
