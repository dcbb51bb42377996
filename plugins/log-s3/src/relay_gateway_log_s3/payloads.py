"""The payload logger: one object per request, found again by the request's id in one GET."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections.abc import Sequence
from typing import ClassVar, Final

import msgspec

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.plugin import PayloadLogger, PayloadRecord, PluginContext
from relay_gateway_log_s3.bucket import LARGEST, Bucket, Running
from relay_gateway_log_s3.config import S3PayloadsConfig
from relay_gateway_log_s3.names import payload_object

LEVEL: Final = 5
"""Of gzip; higher ones take much longer for little less."""
_GZIP: Final = 16 + zlib.MAX_WBITS
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(PayloadRecord)


class S3Payloads(PayloadLogger[S3PayloadsConfig]):
    """Payloads as gzipped JSON in S3. Their retention is a rule of the bucket."""

    name: ClassVar[str] = "s3"
    reads: ClassVar[bool] = True
    Config = S3PayloadsConfig

    def __init__(self, config: S3PayloadsConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self._bucket = Bucket(config, context, "payload_loggers.s3")
        self._running = Running()
        self._room = asyncio.Semaphore(context.max_threads)

    async def aopen(self) -> None:
        """Looks whether the bucket is there."""
        await self._bucket.check()

    async def aclose(self) -> None:
        """Waits for the objects under way."""
        await self._running.ended()
        self._bucket.close()

    async def write(self, records: Sequence[PayloadRecord]) -> None:
        """Stores a batch, several objects at a time. Raises :class:`ValueError` for an id that is
        not one of the gateway's: it would become the name of an object."""
        named = {self._name(record): record for record in records}
        await self._running.shielded(self._write(named))

    async def read(self, request_id: str) -> PayloadRecord | None:
        """The payload of one request, or ``None``."""
        name = payload_object(self.config.prefix, request_id)
        found = None if name is None else await self._bucket.get(name)
        if found is None:
            return None
        return await self.context.run_blocking(_unpacked, found, str(name))

    def _name(self, record: PayloadRecord) -> str:
        name = payload_object(self.config.prefix, record.request_id)
        if name is None:
            raise ValueError(f"{record.request_id[:64]!r} is no request id of the gateway")
        return name

    async def _write(self, named: dict[str, PayloadRecord]) -> None:
        puts = [self._put(name, record) for name, record in named.items()]
        results = await asyncio.gather(*puts, return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def _put(self, name: str, record: PayloadRecord) -> None:
        async with self._room:
            body = await self.context.run_blocking(_packed, record)
            await self._bucket.put(name, body, "application/json")


def _packed(record: PayloadRecord) -> bytes:
    return gzip.compress(_encoder.encode(record), LEVEL, mtime=0)


def _unpacked(body: bytes, name: str) -> PayloadRecord:
    try:
        # Bounded: what is in the bucket may be of somebody else's making.
        return _decoder.decode(zlib.decompressobj(_GZIP).decompress(body, LARGEST))
    except (zlib.error, msgspec.MsgspecError) as error:
        raise StorageUnavailableError(f"{name} in the bucket holds no payload") from error
