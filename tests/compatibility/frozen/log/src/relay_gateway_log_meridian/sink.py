"""The sink: one row per record in an SQLite file. Replace the file by your own storage."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence

import msgspec
from pydantic import Field

from relay_gateway.plugin import PluginConfig, PluginContext, UsageRecord, UsageSink

TABLE = "CREATE TABLE IF NOT EXISTS records (id TEXT PRIMARY KEY, record BLOB NOT NULL)"
# A batch may come again after a failure: the first arrival is the one that counts.
INSERT = "INSERT INTO records VALUES (?, ?) ON CONFLICT (id) DO NOTHING"


class MeridianConfig(PluginConfig):
    """``[usage_sinks.meridian]``."""

    file: str = Field(
        default="usage.sqlite3",
        pattern=r"^[A-Za-z0-9._-]+$",
        description="Name of the file, below the plugin's own directory.",
    )


class MeridianSink(UsageSink[MeridianConfig]):
    """Keeps every record once."""

    name = "meridian"
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

    async def write(self, records: Sequence[UsageRecord]) -> None:
        """Stores a batch. Returning means stored: raise to have it sent again."""
        rows = [(record.request_id, msgspec.json.encode(record)) for record in records]
        await self.context.run_blocking(self._store, rows)

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
        with self._lock:
            if self._connection is None:
                raise RuntimeError("the sink is not open")
            with self._connection:
                self._connection.executemany(INSERT, rows)
