"""The logger: one row per payload in an SQLite file. Replace the file by your own storage."""

from __future__ import annotations

import sqlite3
import threading
import uuid
from collections.abc import Sequence

import msgspec
from pydantic import Field

from relay_gateway.plugin import PayloadLogger, PayloadRecord, PluginConfig, PluginContext

TABLE = "CREATE TABLE IF NOT EXISTS payloads (id TEXT PRIMARY KEY, record BLOB NOT NULL)"
# A batch may come again after a failure: the first arrival is the one that counts.
INSERT = "INSERT INTO payloads VALUES (?, ?) ON CONFLICT (id) DO NOTHING"


class MeridianConfig(PluginConfig):
    """``[payload_loggers.meridian]``."""

    file: str = Field(
        default="payloads.sqlite3",
        pattern=r"^[A-Za-z0-9._-]+$",
        description="Name of the file, below the plugin's own directory.",
    )


class MeridianPayloads(PayloadLogger[MeridianConfig]):
    """Keeps every payload once and gives it back."""

    name = "meridian"
    reads = True
    Config = MeridianConfig

    def __init__(self, config: MeridianConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self._connection: sqlite3.Connection | None = None
        # Batches may be written at once, each in a thread of its own.
        self._lock = threading.Lock()

    async def aopen(self) -> None:
        """Opens the file; what it raises has the gateway try again later."""
        await self.context.run_blocking(self._open)

    async def aclose(self) -> None:
        """Closes the file, once everything that was being written is in it."""
        await self.context.run_blocking(self._close)

    async def write(self, records: Sequence[PayloadRecord]) -> None:
        """Stores a batch. Returning means stored: raise to have it sent again."""
        rows = [(_checked(record.request_id), msgspec.json.encode(record)) for record in records]
        await self.context.run_blocking(self._store, rows)

    async def read(self, request_id: str) -> PayloadRecord | None:
        """The payload of one request, or ``None``."""
        return await self.context.run_blocking(self._find, request_id)

    def _open(self) -> None:
        directory = self.context.data_dir / self.context.plugin
        directory.mkdir(parents=True, exist_ok=True)
        with self._lock:
            if self._connection is None:
                path = directory / self.config.file
                self._connection = sqlite3.connect(path, check_same_thread=False)
                self._connection.execute(TABLE)

    def _close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _store(self, rows: Sequence[tuple[str, bytes]]) -> None:
        with self._lock, self._opened() as connection:
            connection.executemany(INSERT, rows)

    def _find(self, request_id: str) -> PayloadRecord | None:
        with self._lock:
            query = "SELECT record FROM payloads WHERE id = ?"
            row = self._opened().execute(query, (request_id,)).fetchone()
        return None if row is None else msgspec.json.decode(row[0], type=PayloadRecord)

    def _opened(self) -> sqlite3.Connection:
        if self._connection is None:
            raise RuntimeError("the logger is not open")
        return self._connection


def _checked(request_id: str) -> str:
    """The id, if it is one: whatever else came would be a path or a key that nobody meant."""
    try:
        known = str(uuid.UUID(request_id)) == request_id
    except ValueError:
        known = False
    if not known:
        raise ValueError("the payload has no valid request id")
    return request_id
