"""The payload logger: one file per request, found again by the request's id in one read."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final, TypeVar

import msgspec

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.plugin import PayloadLogger, PayloadRecord, PluginContext
from relay_gateway_log_file.config import FilePayloadsConfig, locate_payloads
from relay_gateway_log_file.output import unavailable
from relay_gateway_log_file.payload_retention import PayloadRetention
from relay_gateway_log_file.payload_tree import LARGEST, Hour, PayloadTree, Place, place_of
from relay_gateway_log_file.upkeep import Tidying

T = TypeVar("T")

A_DAY: Final = 86400
LOOKS: Final = 16
"""How often sizes are looked at while as much is written as may be kept."""
LEVEL: Final = 3
"""Of gzip; the usual one takes twice the time to save a tenth."""
_GZIP: Final = 16 + zlib.MAX_WBITS
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(PayloadRecord)


class FilePayloads(PayloadLogger[FilePayloadsConfig]):
    """Payloads as files of gzipped JSON. Several processes may use the same directory.

    Raises :class:`StorageUnavailableError` when the files cannot be used.
    """

    name: ClassVar[str] = "file"
    reads: ClassVar[bool] = True
    Config = FilePayloadsConfig

    def __init__(self, config: FilePayloadsConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self._tree = PayloadTree(locate_payloads(config, context), synced=config.sync == "always")
        self._tidying: Tidying | None = None
        self._written = 0
        self._running: set[asyncio.Future[Any]] = set()

    async def aopen(self) -> None:
        """Makes the directory where it is missing, and deletes what is kept no longer."""
        await self.aclose()
        await self._in_thread(self._tree.make)
        config, context = self.config, self.context
        retention = PayloadRetention(
            self._tree,
            config.retention_days * A_DAY,
            config.retention_bytes,
            context.clock,
            context.logger,
        )
        self._tidying = Tidying(retention, context)
        self._tidying.tidy()

    async def aclose(self) -> None:
        """Waits for batches under way."""
        await asyncio.gather(*self._running, return_exceptions=True)
        tidying, self._tidying = self._tidying, None
        if tidying is not None:
            await tidying.aclose()

    async def write(self, records: Sequence[PayloadRecord]) -> None:
        """Writes a batch. Raises :class:`ValueError` for an id that is not one of the gateway's:
        it would become the name of a file."""
        if self._tidying is None:
            raise StorageUnavailableError("the directory of payloads is not open")
        placed = [(_place(record), record) for record in records]
        self._written += await self._in_thread(self._write, placed)
        due = self._written * LOOKS >= self.config.retention_bytes
        self._written = 0 if due else self._written
        self._tidying.wrote(due)

    async def read(self, request_id: str) -> PayloadRecord | None:
        """The payload of one request, or ``None``."""
        place = place_of(request_id)
        return None if place is None else await self._in_thread(self._read, place)

    def _write(self, placed: Sequence[tuple[Place, PayloadRecord]]) -> int:
        hours: defaultdict[Hour, dict[str, bytes]] = defaultdict(dict)
        for place, record in placed:
            hours[place.hour][place.name] = gzip.compress(_encoder.encode(record), LEVEL, mtime=0)
        for hour, files in hours.items():
            self._tree.write(hour, files)
        return sum(len(data) for files in hours.values() for data in files.values())

    def _read(self, place: Place) -> PayloadRecord | None:
        found = self._tree.read(place)
        if found is None:
            return None
        try:
            # Bounded: what is on the disk may be of somebody else's making.
            return _decoder.decode(zlib.decompressobj(_GZIP).decompress(found, LARGEST))
        except (zlib.error, msgspec.MsgspecError) as error:
            raise StorageUnavailableError(
                f"{place.name} is damaged: it holds no payload"
            ) from error

    async def _in_thread(self, call: Callable[..., T], *args: object) -> T:
        """Lets ``call`` end by itself when the wait for it is cancelled, and be known as running
        until then."""
        future = asyncio.ensure_future(self.context.run_blocking(call, *args))
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        with unavailable(f"payload directory {self._tree.root}", "payload_loggers.file"):
            return await asyncio.shield(future)


def _place(record: PayloadRecord) -> Place:
    place = place_of(record.request_id)
    if place is None:
        raise ValueError(f"{record.request_id[:64]!r} is no request id of the gateway")
    return place
