"""The state of one inference request, filled in step by step and read by ``settle``."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from relay_gateway.catalog.budgets import Spender
from relay_gateway.catalog.snapshot import (
    Deprecation,
    Host,
    HostKey,
    Model,
    Policy,
    Pricing,
    RelayKey,
    Snapshot,
)
from relay_gateway.errors import RequestRefusedError
from relay_gateway.ids import new_id
from relay_gateway.limits.limiter import Reservation
from relay_gateway.pipeline.affinity import Conversation
from relay_gateway.pipeline.breaker import Breaker
from relay_gateway.pipeline.capture_caller import CapturingCaller
from relay_gateway.pipeline.facts import HeadFacts
from relay_gateway.pipeline.form import Form
from relay_gateway.pipeline.keypool import KeyState
from relay_gateway.pipeline.translate import Translation
from relay_gateway.plugin.usage import Attempt, GuardVisit, Outcome
from relay_gateway.plugin.wire import Endpoint, Reading, WireFormat


class Call:
    """One request. Times without a unit in their name are seconds of the monotonic clock, which is
    also the event loop's; the loop's own reading has a resolution of milliseconds only.

    The defaults are attributes of the class: an instance holds only what was set on it, which makes
    a new one a third as expensive as setting some forty fields.
    """

    facts: HeadFacts | None = None
    """What is kept with the caller's connection for its next request, if anything is."""
    mode: Literal["gateway", "proxy"] = "gateway"
    client_request_id: str | None = None
    user_agent: str | None = None
    relay_key: RelayKey | None = None
    policy: Policy | None = None
    requested_model: str | None = None
    streamed: bool = False
    tags: Mapping[str, str] = MappingProxyType({})
    pin: str | None = None
    """Slug of the host that the caller wants."""
    path_model: str | None = None
    """The model as the path names it; the body then says nothing of it."""
    deadline: float | None = None
    bytes_in: int = 0
    body: bytes = b""
    body_for_usage: bytes | None = None
    """The body with the option set that has usage reported in a stream, where it differs."""
    form: Form | None = None
    """Where ``body`` is a form, what was read of it."""
    asked_units: Mapping[str, int] = MappingProxyType({})
    """What the request says that it uses, for where the answer does not."""
    withhold_usage: bool = False
    model: Model | None = None
    deprecation: Deprecation | None = None
    """That of the model that the caller asked for."""
    replaced: Model | None = None
    """That model, where it has ended and another one serves."""
    host: Host | None = None
    host_key: HostKey | None = None
    drawn: KeyState | None = None
    """State of the host key that is in use for this request right now."""
    conversation: Conversation | None = None
    """The conversation that the request belongs to, where its prompt may be in an upstream's
    cache."""
    probing: Breaker | None = None
    """The breaker of an ejected host that this request tries."""
    pricing: Pricing | None = None
    reading: Reading | None = None
    translation: Translation | None = None
    """How the answer comes back into the caller's format, where the upstream speaks another one."""
    dropped: tuple[str, ...] = ()
    """What the upstream was not told, in the caller's words."""
    upstream_format: WireFormat | None = None
    """What the upstream is asked in; ``None`` until one is."""
    announced: bool = False
    """Whether it is accounted for that an upstream is asked."""
    sent_at: float | None = None
    asked_at: float = 0.0
    """When the attempt began that is under way, or that was answered."""
    first_byte_at: float | None = None
    first_token_at: float | None = None
    last_byte_at: float | None = None
    broke_off: str | None = None
    """Why the answer broke off, where that is for its host's sake."""
    status: int = 0
    outcome: Outcome = "ok"
    error_code: str | None = None
    settled: bool = False
    budget_hold: tuple[Sequence[Spender], int] | None = None
    """On whose accounts the request is counted as under way, and with how many nano-units."""
    reservation: Reservation | None = None
    """What is claimed of the caller's limits."""
    key_reservation: Reservation | None = None
    """What is claimed of the limits of the host key that is in use right now."""
    keys_tried: int = 0
    """How often limits of host keys were asked."""
    full_key: RequestRefusedError | None = None
    """What the caller is told if no key is left because their limits have no room."""
    rate_lines: bytes = b""
    """Header lines that tell about the caller's limits."""
    guards: tuple[GuardVisit, ...] = ()
    """What guards did with the request and its answer, in order."""
    captured: CapturingCaller | None = None
    """Who is answered instead of the caller, where the payload is kept."""

    def __init__(
        self, endpoint: Endpoint, wire_format: WireFormat, snapshot: Snapshot, client_address: str
    ) -> None:
        self.endpoint = endpoint
        self.wire_format = wire_format
        self.snapshot = snapshot
        self.client_address = client_address
        self.started_ns = now = time.time_ns()
        self.request_id = new_id(now)
        self.received_at = time.monotonic()
        self.attempts: list[Attempt] = []

    @classmethod
    def of(cls, facts: HeadFacts) -> Call:
        """A request whose head says ``facts``."""
        call = cls(facts.endpoint, facts.wire_format, facts.snapshot, facts.client_address)
        call.facts = facts
        call.client_request_id, call.user_agent = facts.client_request_id, facts.user_agent
        if facts.tags:
            call.tags = facts.tags
        call.pin, call.path_model = facts.pin, facts.model
        return call

    def fail(self, outcome: Outcome, code: str) -> None:
        """Notes how the request ended; the first note stands, and what is accounted for already."""
        if self.outcome == "ok" and not self.settled:
            self.outcome = outcome
            self.error_code = code
