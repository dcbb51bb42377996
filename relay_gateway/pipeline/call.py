"""The state of one inference request, filled in step by step and read by ``settle``."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from relay_gateway.catalog.snapshot import Host, HostKey, Model, Policy, Pricing, RelayKey, Snapshot
from relay_gateway.ids import new_id
from relay_gateway.plugin.usage import Attempt, Outcome
from relay_gateway.plugin.wire import Endpoint, Reading, WireFormat


@dataclass(slots=True)
class Call:
    """One request. Times without a unit in their name are seconds of the monotonic clock, which is
    also the event loop's; the loop's own reading has a resolution of milliseconds only."""

    endpoint: Endpoint
    wire_format: WireFormat
    snapshot: Snapshot
    client_address: str
    user_agent: str | None = None
    client_request_id: str | None = None
    request_id: str = field(default_factory=new_id)
    received_at: float = field(default_factory=time.monotonic)
    started_ns: int = field(default_factory=time.time_ns)
    relay_key: RelayKey | None = None
    policy: Policy | None = None
    requested_model: str | None = None
    streamed: bool = False
    tags: dict[str, str] = field(default_factory=dict)
    pin: str | None = None
    deadline: float | None = None
    bytes_in: int = 0
    body: bytes = b""
    withhold_usage: bool = False
    model: Model | None = None
    host: Host | None = None
    host_key: HostKey | None = None
    drawn: str | None = None
    """Id of the host key that is in use for this request right now."""
    pricing: Pricing | None = None
    attempts: list[Attempt] = field(default_factory=list)
    reading: Reading | None = None
    sent_at: float | None = None
    first_byte_at: float | None = None
    first_token_at: float | None = None
    last_byte_at: float | None = None
    status: int = 0
    outcome: Outcome = "ok"
    error_code: str | None = None
    settled: bool = False

    def fail(self, outcome: Outcome, code: str) -> None:
        """Notes how the request ended; the first note stands."""
        if self.outcome == "ok":
            self.outcome = outcome
            self.error_code = code
