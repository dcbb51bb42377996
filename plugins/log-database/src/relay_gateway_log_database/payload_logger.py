"""Payload logger ``database``: bodies of requests and answers, compressed, found by request id."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from relay_gateway.plugin import PayloadLogger, PayloadRecord, PluginContext
from relay_gateway_log_database.config import PAYLOADS_FILE, DatabasePayloadsConfig, locate
from relay_gateway_log_database.opening import Opening
from relay_gateway_log_database.payload_store import (
    PayloadStore,
    open_payloads,
    read_record,
    record_of,
    row_of,
)
from relay_gateway_log_database.rows import is_id

SECTION = "payload_loggers.database"


class DatabasePayloads(PayloadLogger[DatabasePayloadsConfig]):
    """Payloads in SQLite or PostgreSQL. Several processes may use one database.

    Raises :class:`StorageUnavailableError` when the database cannot be asked.
    """

    name: ClassVar[str] = "database"
    reads: ClassVar[bool] = True
    Config = DatabasePayloadsConfig

    def __init__(self, config: DatabasePayloadsConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self._database = Opening(SECTION, self._open, context.logger)

    async def aopen(self) -> None:
        """Connects and makes the tables where they are missing; may be tried again."""
        await self._database.aopen()

    async def aclose(self) -> None:
        """Closes all connections, once what still runs on them has ended."""
        await self._database.aclose()

    async def write(self, records: Sequence[PayloadRecord]) -> None:
        """Stores a batch in one transaction; records that are there already stay as they are."""
        await self._database.complete(self._write(records))

    async def read(self, request_id: str) -> PayloadRecord | None:
        """The payload of one request, or ``None``, in one read."""
        return await self._database.complete(self._read(request_id))

    async def _open(self) -> PayloadStore:
        url = locate(self.config, self.context, PAYLOADS_FILE)
        return await open_payloads(url, self.config, self.context)

    async def _write(self, records: Sequence[PayloadRecord]) -> None:
        store = self._database.store
        # One by one, for bodies may be large, and the thread has Python's lock in between.
        rows = [await self.context.run_blocking(row_of, record) for record in records]
        if rows:
            await store.write(rows)

    async def _read(self, request_id: str) -> PayloadRecord | None:
        store = self._database.store
        if not is_id(request_id):
            return None
        record = await read_record(store.engine, request_id)
        return None if record is None else await self.context.run_blocking(record_of, record)
