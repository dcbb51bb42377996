"""Payloads as operators read them, and the record that each reading leaves."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.control import ControlServices
from relay_gateway.plugin import PayloadRecord, PluginConfig, UsageRecord
from relay_gateway.storage.audit import AuditQuery
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.memory_logger import MemoryPayloadLogger

WHEN = "2026-01-01T00:00:00.000Z"
READ = AuditQuery(equal={"kind": "payload"})


@pytest.fixture
def logger(tmp_path: Path, services: ControlServices, surroundings: Any) -> MemoryPayloadLogger:
    logger = MemoryPayloadLogger(PluginConfig(), plugin_context(tmp_path))
    services.payload_loggers = lambda: [logger]
    for name in ("r-1", "r-2"):
        surroundings.reader.records[name] = UsageRecord(request_id=name, started_at=WHEN)
    logger.records["r-1"] = PayloadRecord(
        request_id="r-1",
        started_at=WHEN,
        request=b'{"a":"\xc3\xa4"}',
        response=b"\xff\xfe",
        request_content_type="application/json",
        request_bytes=9,
        response_bytes=5000,
        response_truncated=True,
        response_headers=(("x-a", "b"),),
        text="hello",
    )
    return logger


async def entry(admin: httpx.AsyncClient, path: str) -> Mapping[str, Any]:
    answer = await admin.get(path)
    assert answer.status_code == 200, answer.text
    found: Mapping[str, Any] = answer.json()
    assert found["log"]["startedAt"] == WHEN
    return found


async def test_a_payload_comes_with_its_log(
    admin: httpx.AsyncClient, logger: MemoryPayloadLogger
) -> None:
    payload = (await entry(admin, "/logs/r-1"))["payload"]
    assert (payload["request"], payload["requestEncoding"]) == ('{"a":"ä"}', "utf-8")
    assert (payload["response"], payload["responseEncoding"]) == ("//4=", "base64")
    assert (payload["requestTruncated"], payload["responseTruncated"]) == (False, True)
    assert (payload["responseBytes"], payload["text"]) == (5000, "hello")
    assert payload["responseHeaders"] == [["x-a", "b"]]
    assert payload["requestSha256"] is None


async def test_t65_each_reading_of_a_payload_is_recorded_before_it_is_answered(
    admin: httpx.AsyncClient, services: ControlServices, logger: MemoryPayloadLogger
) -> None:
    await admin.get("/logs/r-1")
    await admin.get("/logs/r-1")
    recorded = await services.audit.page(READ)
    told = [(one.action, one.target, one.actor) for one in recorded]
    assert told == [("read", "r-1", "admin")] * 2


async def test_t65_a_payload_is_not_shown_where_its_reading_cannot_be_recorded(
    admin: httpx.AsyncClient, engine: AsyncEngine, logger: MemoryPayloadLogger
) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("ALTER TABLE audit_records RENAME TO gone"))
    answer = await admin.get("/logs/r-1")
    assert answer.status_code == 503
    assert "hello" not in answer.text


@pytest.mark.parametrize("path", ["/logs/r-1?payload=false", "/logs/r-2"])
async def test_what_shows_no_payload_is_not_recorded(
    admin: httpx.AsyncClient, services: ControlServices, logger: MemoryPayloadLogger, path: str
) -> None:
    assert set(await entry(admin, path)) == {"log"}
    assert await services.audit.page(READ) == []


async def test_a_logger_that_fails_is_named_and_the_log_is_shown(
    admin: httpx.AsyncClient, logger: MemoryPayloadLogger
) -> None:
    logger.failure = OSError("disk on fire at /secret/place")
    found = await entry(admin, "/logs/r-1")
    assert found["payloadError"] == "the payload logger 'memory' could not be read"
    assert "payload" not in found


async def test_loggers_that_cannot_be_read_are_not_asked(
    admin: httpx.AsyncClient, services: ControlServices, logger: MemoryPayloadLogger
) -> None:
    class WriteOnly(MemoryPayloadLogger):
        reads = False

    other = WriteOnly(PluginConfig(), logger.context)
    other.failure = AssertionError("was asked")
    services.payload_loggers = lambda: [other, logger]
    assert (await entry(admin, "/logs/r-1"))["payload"]["text"] == "hello"
