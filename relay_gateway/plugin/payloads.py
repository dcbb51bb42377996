"""Payload loggers: request and response bodies of callers that opted in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from relay_gateway.plugin.base import ConfigT, Plugin


class PayloadRecord(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Both bodies of one request as the caller sent and received them, cut at the configured size.

    ``text`` is the assembled text of a stream. Header values are never part of it.
    """

    request_id: str
    started_at: str
    request: bytes
    response: bytes
    request_content_type: str = ""
    response_content_type: str = ""
    request_truncated: bool = False
    response_truncated: bool = False
    text: str | None = None


class PayloadLogger(Plugin[ConfigT]):
    """Stores payloads; called in batches, off the request path, retried until it returns."""

    reads: ClassVar[bool] = False
    """Whether :meth:`read` works."""

    async def write(self, records: Sequence[PayloadRecord]) -> None:
        """Stores a batch; must bear the same record twice. Raises to have the batch retried."""
        raise NotImplementedError

    async def read(self, request_id: str) -> PayloadRecord | None:
        """The payload of one request, or ``None``; only where ``reads`` is true."""
        raise NotImplementedError
