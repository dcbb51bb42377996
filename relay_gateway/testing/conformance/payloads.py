"""What a payload logger promises, and what one that gives payloads back promises besides."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import pytest

from relay_gateway.ids import new_id
from relay_gateway.plugin import PayloadLogger, PayloadRecord
from relay_gateway.testing.records import timestamp

MakeLogger = Callable[[], PayloadLogger]
PICTURE = bytes(range(256)) * 8
STRANGE_IDS = (
    "",
    "no id at all' --",
    "../../../etc/passwd",
    "..",
    "/etc/passwd",
    "a\x00b",
    "%2e%2e%2f",
    "x" * 5000,
)
"""Texts that no request id is; a logger that makes paths or keys of ids must not follow them."""


def payload_record(**fields: Any) -> PayloadRecord:
    """The payload of an ordinary request; ``fields`` replace what they name."""
    request = (
        b'{"model": "acme", "messages": [{"role": "user", "content": "gr\\u00fc\\u00df dich"}]}'
    )
    response = '{"choices": [{"message": {"content": "Grüß dich 👋"}}]}'.encode()
    ordinary: dict[str, Any] = {
        "request_id": new_id(),
        "started_at": timestamp(),
        "request": request,
        "response": response,
        "request_content_type": "application/json",
        "response_content_type": "application/json; charset=utf-8",
        "request_bytes": len(request),
        "response_bytes": len(response),
        "relay_key_id": new_id(),
        "policy_id": new_id(),
    }
    return PayloadRecord(**{**ordinary, **fields})


def odd_payloads() -> list[PayloadRecord]:
    """Payloads that are empty, cut, withheld, large, or no text at all."""
    return [
        payload_record(request=b"", response=b"", request_bytes=0, response_bytes=0),
        payload_record(request=bytes(range(256)), response=b"\xff\xfe\x00" * 100),
        payload_record(request_truncated=True, request_bytes=10_000_000, text="half of \x00 it"),
        payload_record(
            request=b"",
            request_content_type="image/png",
            request_bytes=len(PICTURE),
            request_sha256=hashlib.sha256(PICTURE).hexdigest(),
        ),
        payload_record(response=b"data: {}\n\n" * 200_000, response_truncated=True),
        payload_record(
            request_headers=(("user-agent", "acme/1"), ("x-twice", "1"), ("x-twice", "2")),
            response_headers=(("content-language", "ü"),),
        ),
        PayloadRecord(
            request_id=new_id(), started_at=timestamp(5), request=b"plain", response=b"text"
        ),
    ]


class PayloadLoggerConformance:
    """Subclass and provide ``make_logger``; override ``stored`` for a logger that does not read."""

    @pytest.fixture
    def make_logger(self) -> MakeLogger:
        """Makes a logger, not opened yet, over the same storage each time."""
        raise NotImplementedError

    @pytest.fixture
    async def payloads(self, make_logger: MakeLogger) -> AsyncIterator[PayloadLogger]:
        """An opened logger."""
        payloads = make_logger()
        await payloads.aopen()
        yield payloads
        await payloads.aclose()

    async def stored(self, payloads: PayloadLogger, request_id: str) -> PayloadRecord | None:
        """What the storage has of one request, as :meth:`PayloadLogger.read` would give it."""
        assert payloads.reads, (
            "the logger does not declare reads = True: override stored() in this suite"
        )
        return await payloads.read(request_id)

    async def test_it_bears_being_closed_unopened_and_twice(self, make_logger: MakeLogger) -> None:
        payloads = make_logger()
        await payloads.aclose()
        await payloads.aopen()
        await payloads.aclose()
        await payloads.aclose()

    async def test_an_empty_batch_is_nothing(self, payloads: PayloadLogger) -> None:
        await payloads.write([])

    async def test_every_byte_comes_back(self, payloads: PayloadLogger) -> None:
        records = [payload_record(), *odd_payloads()]
        await payloads.write(records)
        for record in records:
            found = await self.stored(payloads, record.request_id)
            assert found == record, "a payload came back changed, or not at all"

    async def test_a_request_without_a_payload_has_none(self, payloads: PayloadLogger) -> None:
        await payloads.write([payload_record()])
        assert await self.stored(payloads, new_id()) is None

    async def test_a_second_arrival_is_no_error_and_changes_nothing(
        self, payloads: PayloadLogger
    ) -> None:
        first, second = payload_record(), payload_record()
        await payloads.write([first])
        await payloads.write([first, second, second])
        for record in (first, second):
            assert await self.stored(payloads, record.request_id) == record

    async def test_writers_at_once_lose_nothing(self, payloads: PayloadLogger) -> None:
        records = [payload_record(text=str(place)) for place in range(40)]
        batches = [records[start : start + 10] for start in range(0, 40, 5)]
        await asyncio.gather(*(payloads.write(batch) for batch in batches))
        for record in records:
            assert await self.stored(payloads, record.request_id) == record

    async def test_a_batch_of_many_is_taken(self, payloads: PayloadLogger) -> None:
        records = [payload_record() for _ in range(150)]
        await payloads.write(records)
        found = [await self.stored(payloads, record.request_id) for record in records]
        assert found == records

    async def test_what_was_written_outlives_the_logger(self, make_logger: MakeLogger) -> None:
        record = payload_record()
        first = make_logger()
        await first.aopen()
        await first.write([record])
        await first.aclose()
        second = make_logger()
        await second.aopen()
        try:
            assert await self.stored(second, record.request_id) == record
        finally:
            await second.aclose()

    async def test_t53_a_text_that_is_no_request_id_leads_nowhere(
        self, payloads: PayloadLogger
    ) -> None:
        await payloads.write([payload_record()])
        for strange in STRANGE_IDS:
            assert await self.stored(payloads, strange) is None

    async def test_t53_a_payload_with_such_an_id_is_refused(self, payloads: PayloadLogger) -> None:
        for strange in STRANGE_IDS:
            record = msgspec.structs.replace(payload_record(), request_id=strange)
            with pytest.raises(ValueError, match="request"):
                await payloads.write([record])
