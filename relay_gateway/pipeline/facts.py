"""What the head of a request says, worked out once for as long as a caller repeats it.

Clients send one head after the other that is the same but for its length. What follows from such a
head under one snapshot is kept here with the caller's connection, so that it is not read, hashed
and looked up again; what depends on time is looked at again for each request.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from relay_gateway.catalog.snapshot import Binding, Policy, PresentedKey, Snapshot
from relay_gateway.pipeline.route import Plan
from relay_gateway.plugin.wire import Endpoint, WireFormat
from relay_gateway.secret import Secret


class KnownStart(NamedTuple):
    """The start of a request to an upstream, and what it was made from besides the caller's
    head."""

    binding: Binding
    secret: Secret | None
    streamed: bool
    start: bytes


class HeadFacts(msgspec.Struct):
    """Facts about a head that hold while ``snapshot`` is the current one.

    ``presented``, ``policy`` and ``captured`` (whether payloads are kept) are filled in when the
    key has been accepted once, ``routed`` (a model as it was called, and the plan for it) and
    ``start`` with the last request to an upstream.
    """

    snapshot: Snapshot
    endpoint: Endpoint
    wire_format: WireFormat
    client_address: str
    client_request_id: str | None
    user_agent: str | None
    tags: Mapping[str, str]
    pin: str | None
    model: str | None = None
    """The model that the path names, where it does."""
    presented: PresentedKey | None = None
    policy: Policy | None = None
    captured: bool = False
    routed: tuple[str, Plan] | None = None
    start: KnownStart | None = None
