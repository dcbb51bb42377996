"""Payloads as ``GET /logs/{requestId}`` shows them: read from whichever logger has them, and never
without a record of who read."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec

from relay_gateway.control.services import ControlServices
from relay_gateway.plugin import PayloadLogger, PayloadRecord
from relay_gateway.storage.audit import AuditEvent

READ_SECONDS: Final = 10.0
Encoding = Literal["utf-8", "base64"]

_log = logging.getLogger(__name__)


class Payload(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Both bodies of a request, as far as they were kept, after redaction.

    A body that is no UTF-8 is in base64, as its ``…Encoding`` says. ``…Bytes`` are the true sizes;
    a ``…Sha256`` is there where a body was not kept as it was. ``text`` is the text of a stream.
    """

    request: str
    response: str
    request_encoding: Encoding = "utf-8"
    response_encoding: Encoding = "utf-8"
    request_truncated: bool = False
    response_truncated: bool = False
    request_bytes: int = 0
    response_bytes: int = 0
    request_content_type: str = ""
    response_content_type: str = ""
    request_sha256: str | None = None
    response_sha256: str | None = None
    request_headers: tuple[tuple[str, str], ...] = ()
    response_headers: tuple[tuple[str, str], ...] = ()
    text: str | None = None


class PayloadDesk:
    """Reads payloads for operators."""

    def __init__(self, services: ControlServices) -> None:
        self._services = services

    async def read(self, request_id: str) -> tuple[Payload | None, str | None]:
        """The payload of a request, if a logger has one, and what kept a logger from saying.

        Raises :class:`StorageUnavailableError` where the reading cannot be recorded; nothing is
        shown then.
        """
        record, trouble = await self._find(request_id)
        if record is None:
            return None, trouble
        await self._services.audit.record(
            AuditEvent(action="read", kind="payload", target=request_id)
        )
        return shown(record), None

    async def _find(self, request_id: str) -> tuple[PayloadRecord | None, str | None]:
        trouble = None
        for logger in self._readers():
            try:
                async with asyncio.timeout(READ_SECONDS):
                    record = await logger.read(request_id)
            except Exception as error:  # noqa: BLE001 - plugins raise what they like
                _log.warning("payload logger %s: %s", logger.name, error)
                trouble = f"the payload logger {logger.name!r} could not be read"
                continue
            if record is not None:
                return record, None
        return None, trouble

    def _readers(self) -> Sequence[PayloadLogger[Any]]:
        return [logger for logger in self._services.payload_loggers() if logger.reads]


def shown(record: PayloadRecord) -> Payload:
    """A record in JSON's terms."""
    request, request_encoding = _text(record.request)
    response, response_encoding = _text(record.response)
    return Payload(
        request=request,
        response=response,
        request_encoding=request_encoding,
        response_encoding=response_encoding,
        request_truncated=record.request_truncated,
        response_truncated=record.response_truncated,
        request_bytes=record.request_bytes,
        response_bytes=record.response_bytes,
        request_content_type=record.request_content_type,
        response_content_type=record.response_content_type,
        request_sha256=record.request_sha256,
        response_sha256=record.response_sha256,
        request_headers=record.request_headers,
        response_headers=record.response_headers,
        text=record.text,
    )


def _text(body: bytes) -> tuple[str, Encoding]:
    try:
        return body.decode(), "utf-8"
    except UnicodeDecodeError:
        return base64.b64encode(body).decode("ascii"), "base64"
