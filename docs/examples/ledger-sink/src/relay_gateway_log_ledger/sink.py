"""The sink: a row per request in an SQLite file, with the columns that a finance team asks for."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Sequence

import msgspec
from pydantic import Field

from relay_gateway.plugin import PluginConfig, PluginContext, UsageRecord, UsageSink

SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (
    id TEXT PRIMARY KEY, day TEXT NOT NULL, model TEXT, team TEXT,
    input INTEGER NOT NULL, output INTEGER NOT NULL, cost_nanos INTEGER, record BLOB NOT NULL
);
CREATE VIEW IF NOT EXISTS spend AS
    SELECT day, team, model, count(*) AS requests, sum(input) AS input, sum(output) AS output,
        sum(cost_nanos) / 1e9 AS cost
    FROM requests GROUP BY day, team, model;
"""
# A batch may come again after a failure: the first arrival is the one that counts.
INSERT = "INSERT INTO requests VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING"


class LedgerConfig(PluginConfig):
    """``[usage_sinks.ledger]``."""

    file: str = Field(
        default="ledger.sqlite3",
        pattern=r"^[A-Za-z0-9._-]+$",
        description="Name of the file, below the plugin's own directory.",
    )
    team_tag: str = Field(
        default="team", description="The tag of requests that says who is to pay for them."
    )


class LedgerSink(UsageSink[LedgerConfig]):
    """Keeps every record once, and sums them up by day, team and model."""

    name = "ledger"
    Config = LedgerConfig

    def __init__(self, config: LedgerConfig, context: PluginContext) -> None:
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
        rows = [self._row(record) for record in records]
        await self.context.run_blocking(self._store, rows)

    def _row(self, record: UsageRecord) -> tuple[object, ...]:
        return (
            record.request_id,
            record.started_at[:10],
            record.requested_model,
            record.tags.get(self.config.team_tag),
            record.tokens.get("input", 0),
            record.tokens.get("output", 0),
            record.cost_nanos,
            msgspec.json.encode(record),
        )

    def _open(self) -> None:
        directory = self.context.data_dir / self.context.plugin
        directory.mkdir(parents=True, exist_ok=True)
        with self._lock:
            if self._connection is None:
                path = directory / self.config.file
                self._connection = sqlite3.connect(path, check_same_thread=False)
                self._connection.executescript(SCHEMA)

    def _close(self) -> None:
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _store(self, rows: Sequence[tuple[object, ...]]) -> None:
        with self._lock:
            if self._connection is None:
                raise RuntimeError("the sink is not open")
            with self._connection:
                self._connection.executemany(INSERT, rows)
