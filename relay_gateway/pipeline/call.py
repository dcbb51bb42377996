"""The state of one inference request, filled in step by step and read by ``settle``."""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType

from relay_gateway.catalog.snapshot import Host, HostKey, Model, Policy, Pricing, RelayKey, Snapshot
from relay_gateway.ids import new_id
from relay_gateway.pipeline.keypool import KeyState
from relay_gateway.plugin.usage import Attempt, Outcome
from relay_gateway.plugin.wire import Endpoint, Reading, WireFormat


class Call:
    """One request. Times without a unit in their name are seconds of the monotonic clock, which is
    also the event loop's; the loop's own reading has a resolution of milliseconds only.

    The defaults are attributes of the class: an instance holds only what was set on it, which makes
    a new one a third as expensive as setting some forty fields.
    """

    client_request_id: str | None = None
    user_agent: str | None = None
    relay_key: RelayKey | None = None
    policy: Policy | None = None
    requested_model: str | None = None
    streamed: bool = False
    tags: Mapping[str, str] = MappingProxyType({})
    pin: str | None = None
    """Slug of the host that the caller wants."""
    deadline: float | None = None
    bytes_in: int = 0
    body: bytes = b""
    withhold_usage: bool = False
    model: Model | None = None
    host: Host | None = None
    host_key: HostKey | None = None
    drawn: KeyState | None = None
    """State of the host key that is in use for this request right now."""
    pricing: Pricing | None = None
    reading: Reading | None = None
    sent_at: float | None = None
    first_byte_at: float | None = None
    first_token_at: float | None = None
    last_byte_at: float | None = None
    status: int = 0
    outcome: Outcome = "ok"
    error_code: str | None = None
    settled: bool = False

    def __init__(
        self, endpoint: Endpoint, wire_format: WireFormat, snapshot: Snapshot, client_address: str
    ) -> None:
        self.endpoint = endpoint
        self.wire_format = wire_format
        self.snapshot = snapshot
        self.client_address = client_address
        self.request_id = new_id()
        self.received_at = time.monotonic()
        self.started_ns = time.time_ns()
        self.attempts: list[Attempt] = []

    def fail(self, outcome: Outcome, code: str) -> None:
        """Notes how the request ended; the first note stands."""
        if self.outcome == "ok":
            self.outcome = outcome
            self.error_code = code
