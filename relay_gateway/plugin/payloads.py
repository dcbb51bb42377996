"""Payload loggers: request and response bodies of callers that opted in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from relay_gateway.plugin.base import ConfigT, Plugin


class PayloadRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Both bodies of one request as the caller sent and received them, cut at the configured size
    and redacted.

    ``request_bytes`` and ``response_bytes`` are the true sizes. A body whose content type is no
    text (audio, images, forms with files) is not kept: it is empty, and its ``…_sha256`` says what
    it was. ``text`` is the assembled text of a stream. The headers are those of the operator's
    allow-list, names in lower case; credentials are never among them.
    """

    request_id: str
    started_at: str
    request: bytes
    response: bytes
    request_content_type: str = ""
    response_content_type: str = ""
    request_bytes: int = 0
    response_bytes: int = 0
    request_truncated: bool = False
    response_truncated: bool = False
    request_sha256: str | None = None
    response_sha256: str | None = None
    request_headers: tuple[tuple[str, str], ...] = ()
    response_headers: tuple[tuple[str, str], ...] = ()
    text: str | None = None
    relay_key_id: str | None = None
    policy_id: str | None = None


class PayloadLogger(Plugin[ConfigT]):
    """Stores payloads; called in batches, off the request path, retried until it returns."""

    reads: ClassVar[bool] = False
    """Whether :meth:`read` works."""
    batch_records: int = 64
    """How many records a batch has at most."""
    batch_bytes: int = 8 * 1024 * 1024
    """About how large a batch is at most, in bytes."""
    batch_seconds: float = 0.05
    """How long the first record of a batch waits for more to come, at most. Classes set these
    three, or instances before they are opened; what ends waits for none of them."""

    async def write(self, records: Sequence[PayloadRecord]) -> None:
        """Stores a batch; must bear the same record twice. Raises to have the batch retried."""
        raise NotImplementedError

    async def read(self, request_id: str) -> PayloadRecord | None:
        """The payload of one request, or ``None``, in one read; only where ``reads`` is true."""
        raise NotImplementedError
