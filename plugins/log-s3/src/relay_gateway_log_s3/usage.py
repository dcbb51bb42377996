"""The usage sink: each batch becomes an object of JSON lines for each hour that it touches."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Sequence
from typing import ClassVar, Final

import msgspec

from relay_gateway.plugin import PluginContext, UsageRecord, UsageSink
from relay_gateway_log_s3.bucket import Bucket, Running
from relay_gateway_log_s3.config import S3UsageConfig
from relay_gateway_log_s3.names import usage_objects
from relay_gateway_log_s3.recent import RecentIds

LEVEL: Final = 5
"""Of gzip; higher ones take much longer for little less."""
_encoder = msgspec.json.Encoder()


class _Packed(msgspec.Struct, frozen=True):
    """What an object will hold, and the ids of the records in it."""

    body: bytes
    ids: tuple[str, ...]


class S3Usage(UsageSink[S3UsageConfig]):
    """Usage records as gzipped JSON lines in S3; they cannot be read back from here.

    An object that may be there or not is written again as it was, before anything else. After a
    crash a batch comes again from its first record on, and so to the same objects: they are
    replaced. Either way nothing is there twice.
    """

    name: ClassVar[str] = "s3"
    Config = S3UsageConfig

    def __init__(self, config: S3UsageConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self.batch_records = config.batch_records
        self.batch_bytes = int(config.batch_bytes)
        self.batch_seconds = config.batch_seconds
        self._bucket = Bucket(config, context, "usage_sinks.s3")
        self._recent = RecentIds(config.batch_records)
        self._unsettled: dict[str, _Packed] = {}
        self._running = Running()
        self._turn = asyncio.Lock()

    async def aopen(self) -> None:
        """Looks whether the bucket is there."""
        await self._bucket.check()

    async def aclose(self) -> None:
        """Waits for the batch under way."""
        await self._running.ended()
        self._bucket.close()

    async def write(self, records: Sequence[UsageRecord]) -> None:
        """Stores a batch; records that were stored lately are left out."""
        await self._running.shielded(self._write(records))

    async def _write(self, records: Sequence[UsageRecord]) -> None:
        # In turn: an abandoned write that ended after its repetition would undo what that added.
        async with self._turn:
            await self._settle()
            # All of them before the first is sent: what cannot be packed is nobody else's trouble.
            self._unsettled |= await self.context.run_blocking(self._pack, records)
            await self._settle()

    def _pack(self, records: Sequence[UsageRecord]) -> dict[str, _Packed]:
        objects = usage_objects(self.config.prefix, self._recent.unknown(records))
        return {name: _packed(found) for name, found in objects.items()}

    async def _settle(self) -> None:
        for name, packed in list(self._unsettled.items()):
            await self._bucket.put(name, packed.body, "application/x-ndjson")
            self._recent.add(packed.ids)
            del self._unsettled[name]


def _packed(records: Sequence[UsageRecord]) -> _Packed:
    body = gzip.compress(_encoder.encode_lines(records), LEVEL, mtime=0)
    return _Packed(body, tuple(record.request_id for record in records))
