"""A first attempt for which nothing has to be waited for: ready to be sent, and under way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from relay_gateway.catalog.snapshot import HostKey
from relay_gateway.http.answer import Exchange
from relay_gateway.http.outgoing_head import OutgoingRequest
from relay_gateway.pipeline.course import Way
from relay_gateway.pipeline.route import Candidate
from relay_gateway.secret import Secret

Ready = tuple[Candidate, HostKey | None, Secret | None, OutgoingRequest, Iterator[Way]]
"""A first attempt that is accounted for, and only has to be sent; with the ways that are left to
try. A plain tuple, because every request makes one."""


class Opening(NamedTuple):
    """A first attempt that has begun: the upstream is asked and has not answered yet. ``ways`` are
    those that are left to try."""

    candidate: Candidate
    key: HostKey | None
    secret: Secret | None
    began: float
    request: OutgoingRequest
    exchange: Exchange
    ways: Iterator[Way]
