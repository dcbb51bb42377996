"""Objects of usage records: where they lie, what becomes of repetitions, and of large ones."""

from __future__ import annotations

import asyncio
import base64
import gzip
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.plugin import PluginContext, UsageRecord
from relay_gateway.testing.faultproxy import Fault, FaultProxy
from relay_gateway.testing.records import timestamp, usage_record
from relay_gateway_log_s3 import S3Usage, S3UsageConfig

AN_HOUR = 3600

MakeUsage = Callable[..., S3Usage]
Objects = Callable[[], Awaitable[dict[str, bytes]]]


def _ids(lines: bytes) -> list[str]:
    return [msgspec.json.decode(line, type=UsageRecord).request_id for line in lines.splitlines()]


def _bulky(number: int) -> list[UsageRecord]:
    """Records that hardly become smaller."""
    noise = random.Random(5)
    return [
        usage_record(user_agent=base64.b64encode(noise.randbytes(12_000)).decode())
        for _ in range(number)
    ]


async def test_records_lie_by_date_hour_and_instance(
    make_usage: MakeUsage, objects: Objects
) -> None:
    sink = make_usage(prefix="team/usage/")
    early = usage_record(started_at=timestamp(5), instance="a")
    late = usage_record(started_at=timestamp(AN_HOUR), instance="a")
    other = usage_record(started_at=timestamp(6), instance="b")
    more = usage_record(started_at=timestamp(7), instance="a")
    await sink.write([early, late, other, more])
    found = {name: _ids(lines) for name, lines in (await objects()).items()}
    day = "team/usage/date=2026-01-01"
    assert found == {
        f"{day}/hour=00/instance-a-{early.request_id}.jsonl.gz": [
            early.request_id,
            more.request_id,
        ],
        f"{day}/hour=01/instance-a-{late.request_id}.jsonl.gz": [late.request_id],
        f"{day}/hour=00/instance-b-{other.request_id}.jsonl.gz": [other.request_id],
    }


async def test_hours_are_those_of_utc(make_usage: MakeUsage, objects: Objects) -> None:
    await make_usage().write([usage_record(started_at="2026-01-01T00:30:00+01:00")])
    (name,) = await objects()
    assert name.startswith("usage/date=2025-12-31/hour=23/")


async def test_t53_what_is_no_plain_name_becomes_a_digest(
    make_usage: MakeUsage, objects: Objects
) -> None:
    await make_usage().write([usage_record(request_id="../../etc/x", instance="/..")])
    (name,) = await objects()
    assert name.startswith("usage/date=2026-01-01/hour=00/instance-")
    assert ".." not in name
    assert name.count("/") == 3


async def test_a_time_that_is_none_is_told(make_usage: MakeUsage) -> None:
    with pytest.raises(ValueError, match="'yesterday' is not an RFC 3339 time"):
        await make_usage().write([usage_record(started_at="yesterday")])


async def test_f18_a_lost_acknowledgement_doubles_nothing(
    make_usage: MakeUsage, objects: Objects, store: Any
) -> None:
    records = [usage_record(started_at=timestamp(index * 600)) for index in range(12)]
    async with FaultProxy("127.0.0.1", store.port) as link:
        settings = {"endpoint_url": f"http://127.0.0.1:{link.port}"}
        sink = make_usage(**settings)
        # Both hours arrive, and nobody hears of it.
        link.to_client = Fault(reset_after=0)
        for _ in range(5):
            with pytest.raises(StorageUnavailableError, match="did not answer"):
                await sink.write(records[:8])
        link.clear()
        # After a restart the batch begins with the same record, and may have grown.
        await make_usage(**settings).write(records)
    counted = Counter(one for lines in (await objects()).values() for one in _ids(lines))
    assert counted == Counter(record.request_id for record in records)


async def test_a_batch_of_another_size_after_a_restart_loses_and_doubles_nothing(
    make_usage: MakeUsage, objects: Objects
) -> None:
    records = [usage_record(started_at=timestamp(index * 1200)) for index in range(9)]
    await make_usage().write(records)  # its acknowledgement is not kept
    second = make_usage()
    for start in range(0, 9, 2):
        await second.write(records[start : start + 2])
    found = await objects()
    wanted = Counter(record.request_id for record in records)
    counted = Counter(one for lines in found.values() for one in _ids(lines))
    assert counted == wanted


class Forgetful:
    """A bucket that says of most writes that they failed, whether they did or not."""

    def __init__(self, chance: random.Random) -> None:
        self.objects: dict[str, bytes] = {}
        self.cut = 0
        self._chance = chance

    async def put(self, name: str, body: bytes, content_type: str) -> None:
        fate = self._chance.random()
        if fate >= 0.2:
            self.objects[name] = gzip.decompress(body)
        if fate < 0.7:
            self.cut += 1
            raise StorageUnavailableError("nobody knows")

    def close(self) -> None:
        """There is nothing to close."""


async def _is_taken(sink: S3Usage, records: Sequence[UsageRecord]) -> bool:
    try:
        await sink.write(records)
    except StorageUnavailableError:
        return False
    return True


async def test_f18_a_thousand_lost_acknowledgements_lose_and_double_nothing(
    context: PluginContext, settings: dict[str, Any]
) -> None:
    chance = random.Random(18)
    bucket = Forgetful(chance)

    def started() -> S3Usage:
        sink = S3Usage(S3UsageConfig.model_validate(settings), context)
        sink._bucket = bucket  # type: ignore[assignment]
        return sink

    sink, sent = started(), 0
    records = [usage_record(started_at=timestamp(index * 700 % 9000)) for index in range(4000)]
    while batch := records[sent : sent + chance.randrange(1, 40)]:
        waiting = batch
        while waiting and chance.random() < 0.9:  # else it is killed, and forgets its place
            if await _is_taken(sink, waiting):
                waiting = []
            elif chance.random() < 0.3:  # what was refused is handed over in parts
                parts = [waiting[start : start + 3] for start in range(0, len(waiting), 3)]
                chance.shuffle(parts)
                waiting = [one for part in parts if not await _is_taken(sink, part) for one in part]
        if waiting or chance.random() < 0.1:
            sink = started()
        else:
            sent += len(batch)
    counted = Counter(one for lines in bucket.objects.values() for one in _ids(lines))
    assert bucket.cut >= 1000
    assert counted == Counter(record.request_id for record in records)


async def test_an_abandoned_write_ends_before_its_repetition(
    make_usage: MakeUsage, objects: Objects
) -> None:
    sink = make_usage()
    records = [usage_record() for _ in range(6)]
    abandoned = asyncio.create_task(sink.write(records[:3]))
    await asyncio.sleep(0)
    abandoned.cancel()
    await asyncio.gather(abandoned, return_exceptions=True)
    await sink.write(records)
    counted = Counter(one for lines in (await objects()).values() for one in _ids(lines))
    assert counted == Counter(record.request_id for record in records)


async def test_closing_waits_for_the_batch_under_way(
    make_usage: MakeUsage, objects: Objects
) -> None:
    sink = make_usage()
    async with asyncio.TaskGroup() as group:
        group.create_task(sink.write([usage_record()]))
        await asyncio.sleep(0)
        await sink.aclose()
        assert len(await objects()) == 1


async def test_a_large_object_is_sent_in_parts(
    make_usage: MakeUsage, objects: Objects, store: Any, bucket: str
) -> None:
    records = _bulky(600)
    await make_usage(multipart_bytes="5MiB").write(records)
    ((name, lines),) = (await objects()).items()
    assert _ids(lines) == [record.request_id for record in records]
    told = await asyncio.to_thread(store.head, bucket, name)
    assert told["ETag"].strip('"').endswith("-2"), "an ETag of two parts"
    assert told["ContentEncoding"] == "gzip"


async def test_f18_parts_whose_acknowledgement_is_lost_leave_one_object(
    make_usage: MakeUsage, objects: Objects, store: Any
) -> None:
    records = _bulky(600)
    async with FaultProxy("127.0.0.1", store.port) as link:
        sink = make_usage(endpoint_url=f"http://127.0.0.1:{link.port}", multipart_bytes="5MiB")
        link.to_server = Fault(reset_after=3_000_000)
        with pytest.raises(StorageUnavailableError, match="did not answer"):
            await sink.write(records)
        assert await objects() == {}, "parts alone are no object"
        link.clear()
        await sink.write(records)
    ((_, lines),) = (await objects()).items()
    assert len(_ids(lines)) == 600


async def test_objects_are_encrypted_and_stored_as_configured(
    make_usage: MakeUsage, objects: Objects, store: Any, bucket: str
) -> None:
    sink = make_usage(encryption="kms", kms_key_id="alias/usage", storage_class="STANDARD_IA")
    await sink.write([usage_record()])
    await make_usage(encryption="s3", prefix="other/", checksums=True).write([usage_record()])
    other, usage = sorted(await objects())
    told = await asyncio.to_thread(store.head, bucket, usage)
    assert told["ServerSideEncryption"] == "aws:kms"
    assert told["SSEKMSKeyId"] == "alias/usage"
    assert told["StorageClass"] == "STANDARD_IA"
    assert told["ContentType"] == "application/x-ndjson"
    assert (await asyncio.to_thread(store.head, bucket, other))["ServerSideEncryption"] == "AES256"


async def test_a_missing_bucket_is_told_when_the_sink_opens_and_when_it_writes(
    make_usage: MakeUsage, store: Any, vault: Any
) -> None:
    vault.value = msgspec.json.encode(store.keys["admin"]).decode()
    sink = make_usage(bucket="not-there")
    with pytest.raises(StorageUnavailableError, match=r"404 .*s3://not-there/.*make it"):
        await sink.aopen()
    with pytest.raises(StorageUnavailableError, match=r"404 NoSuchBucket .* correct `bucket` in"):
        await sink.write([usage_record()])


async def test_a_denied_write_names_the_permission(
    make_usage: MakeUsage, store: Any, vault: Any
) -> None:
    vault.value = msgspec.json.encode(store.keys["nobody"]).decode()
    sink = make_usage()
    await sink.aopen()  # who may write need not be allowed to look
    with pytest.raises(StorageUnavailableError, match=r"403 AccessDenied .*s3:PutObject there"):
        await sink.write([usage_record()])


async def test_what_hangs_is_given_up(make_usage: MakeUsage, store: Any) -> None:
    async with FaultProxy("127.0.0.1", store.port) as link:
        link.to_server = Fault(blackhole=True)
        sink = make_usage(endpoint_url=f"http://127.0.0.1:{link.port}", read_timeout=0.3)
        began = time.monotonic()
        with pytest.raises(StorageUnavailableError, match=r"ReadTimeoutError.*did not answer"):
            await sink.write([usage_record()])
        # Of the library's own accord it would be a minute; loading it may take seconds here.
        assert time.monotonic() - began < 30
        assert link.accepted == 1, "it is tried again by whoever handed it over, not here"


async def test_f16_a_store_that_comes_back_gets_the_batch(
    make_usage: MakeUsage, objects: Objects, store: Any
) -> None:
    async with FaultProxy("127.0.0.1", store.port) as link:
        sink = make_usage(endpoint_url=f"http://127.0.0.1:{link.port}")
        link.refuse = True
        with pytest.raises(StorageUnavailableError, match="could not be asked"):
            await sink.aopen()
        link.refuse = False
        await sink.aopen()
        await sink.write([usage_record()])
    assert len(await objects()) == 1


async def test_it_prefers_large_batches_and_does_not_read(make_usage: MakeUsage) -> None:
    sink = make_usage(batch_records=5000, batch_bytes="1MiB", batch_seconds=300)
    assert (sink.batch_records, sink.batch_bytes, sink.batch_seconds) == (5000, 2**20, 300)
    assert not sink.reads
