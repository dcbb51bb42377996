"""Payloads: one object each, found by the request's id in one GET."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.plugin import PayloadRecord
from relay_gateway.testing.faultproxy import Fault, FaultProxy
from relay_gateway.testing.plugin_tests import new_id
from relay_gateway_log_s3 import S3Payloads

AN_ID = "019b76da-a800-7000-8000-000000000001"  # of 2026-01-01T00:00:00Z

OpenPayloads = Callable[..., Awaitable[S3Payloads]]
Objects = Callable[[], Awaitable[dict[str, bytes]]]


def payload(request_id: str | None = None, **fields: Any) -> PayloadRecord:
    ordinary: dict[str, Any] = {
        "request_id": new_id() if request_id is None else request_id,
        "started_at": "2026-01-01T00:00:00.000000Z",
        "request": b'{"messages": [{"role": "user", "content": "\xc3\xa9"}]}',
        "response": b"data: \xff\x00\r\n\r\n",
        "request_content_type": "application/json",
        "response_bytes": 9,
        "response_truncated": True,
        "request_headers": (("accept", "*/*"), ("accept", "text/html")),
        "text": "Zürich\n",
    }
    return PayloadRecord(**{**ordinary, **fields})


async def test_a_payload_comes_back_as_it_was(open_payloads: OpenPayloads) -> None:
    logger = await open_payloads()
    records = [payload() for _ in range(20)]
    await logger.write(records)
    for record in records:
        assert await logger.read(record.request_id) == record


async def test_the_name_of_an_object_follows_from_the_id_alone(
    open_payloads: OpenPayloads, objects: Objects
) -> None:
    logger = await open_payloads(prefix="a/b/")
    await logger.write([payload(AN_ID, started_at="2030-05-05T00:00:00Z")])
    ((name, content),) = (await objects()).items()
    assert name == f"a/b/date=2026-01-01/{AN_ID}.json.gz"
    assert json.loads(content)["requestId"] == AN_ID


async def test_a_payload_that_comes_again_is_there_once(
    open_payloads: OpenPayloads, objects: Objects
) -> None:
    logger = await open_payloads()
    record = payload()
    for _ in range(3):
        await logger.write([record, record])
    assert len(await objects()) == 1
    assert await logger.read(record.request_id) == record


async def test_reading_takes_one_get(open_payloads: OpenPayloads) -> None:
    logger = await open_payloads()
    record = payload()
    await logger.write([record])
    sent: list[str] = []
    events = logger._bucket._clients._client.meta.events
    events.register("before-send.s3", lambda request, **_: sent.append(request.method))
    assert await logger.read(record.request_id) == record
    assert sent == ["GET"]


async def test_what_was_not_stored_is_none(open_payloads: OpenPayloads) -> None:
    logger = await open_payloads()
    assert await logger.read(new_id()) is None


@pytest.mark.parametrize(
    "request_id", ["../x", "", AN_ID.upper(), AN_ID.replace("-7", "-4"), "a/b"]
)
async def test_t53_an_id_that_is_not_the_gateways_names_no_object(
    open_payloads: OpenPayloads, objects: Objects, request_id: str
) -> None:
    logger = await open_payloads()
    with pytest.raises(ValueError, match="is no request id of the gateway"):
        await logger.write([payload(AN_ID), payload(request_id)])
    assert await logger.read(request_id) is None
    assert await objects() == {}


async def test_one_failure_fails_the_batch_and_a_repetition_completes_it(
    open_payloads: OpenPayloads, objects: Objects, store: Any
) -> None:
    async with FaultProxy("127.0.0.1", store.port) as link:
        logger = await open_payloads(endpoint_url=f"http://127.0.0.1:{link.port}")
        link.to_client = Fault(reset_after=0)
        records = [payload() for _ in range(10)]
        with pytest.raises(StorageUnavailableError, match="did not answer"):
            await logger.write(records)
        link.clear()
        await logger.write(records)
    assert len(await objects()) == 10


async def test_a_large_payload_is_sent_in_parts(
    open_payloads: OpenPayloads, store: Any, bucket: str
) -> None:
    logger = await open_payloads(multipart_bytes="5MiB")
    record = payload(AN_ID, request=random.Random(1).randbytes(6 * 1024 * 1024))
    await logger.write([record])
    name = f"payloads/date=2026-01-01/{AN_ID}.json.gz"
    told = await asyncio.to_thread(store.head, bucket, name)
    assert "-" in told["ETag"]
    assert await logger.read(AN_ID) == record


@pytest.mark.parametrize(
    "content",
    [b"not gzip", gzip.compress(b"{}", mtime=0), gzip.compress(b"[", mtime=0)],
    ids=["not gzip", "not a payload", "not JSON"],
)
async def test_an_object_that_is_none_of_ours_is_told(
    open_payloads: OpenPayloads, store: Any, bucket: str, content: bytes
) -> None:
    def put() -> None:
        client = store.client()
        name = f"payloads/date=2026-01-01/{AN_ID}.json.gz"
        client.put_object(Bucket=bucket, Key=name, Body=content)
        client.close()

    await asyncio.to_thread(put)
    with pytest.raises(StorageUnavailableError, match="holds no payload"):
        await (await open_payloads()).read(AN_ID)


async def test_reading_without_permission_is_told(
    open_payloads: OpenPayloads, store: Any, vault: Any
) -> None:
    vault.value = msgspec.json.encode(store.keys["nobody"]).decode()
    with pytest.raises(StorageUnavailableError, match="s3:GetObject and s3:ListBucket there"):
        await (await open_payloads()).read(AN_ID)


async def test_t65_bodies_are_not_in_the_log(
    open_payloads: OpenPayloads, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    logger = await open_payloads()
    await logger.write([payload(AN_ID, text="canary-5f1c9e7d2b")])
    await logger.read(AN_ID)
    assert "canary" not in caplog.text
    assert "Zürich" not in caplog.text
