"""What is written before an upstream is asked: enough to account for a request that the process
did not live to finish."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Literal

import msgspec

from relay_gateway.plugin.usage import UsageRecord

INTERRUPTED = "interrupted"


class Opened(msgspec.Struct, frozen=True, array_like=True):
    """The beginning of a request, as the pipeline announces it."""

    request_id: str
    started_ns: int
    mode: Literal["gateway", "proxy"]
    endpoint: str
    wire_format: str
    streamed: bool
    client_request_id: str | None
    relay_key_id: str | None
    policy_id: str | None
    provider_id: str | None
    model_id: str | None
    requested_model: str | None
    host_id: str | None
    host_key_id: str | None
    client_ip: str | None
    tags: dict[str, str]


def interrupted(opened: Opened, instance: str) -> UsageRecord:
    """The record of a request whose process was killed: what it came to is not known."""
    started = datetime.fromtimestamp(opened.started_ns / 1e9, UTC)
    return UsageRecord(
        request_id=opened.request_id,
        started_at=started.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        mode=opened.mode,
        endpoint=opened.endpoint,
        wire_format=opened.wire_format,
        streamed=opened.streamed,
        status=0,
        outcome="aborted",
        error_code=INTERRUPTED,
        client_request_id=opened.client_request_id,
        relay_key_id=opened.relay_key_id,
        policy_id=opened.policy_id,
        provider_id=opened.provider_id,
        model_id=opened.model_id,
        requested_model=opened.requested_model,
        host_id=opened.host_id,
        host_key_id=opened.host_key_id,
        client_ip=opened.client_ip,
        tags=opened.tags,
        instance=instance,
    )
