"""A database of version 1 keeps its records: they are moved while new ones come in."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import msgspec
import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.plugin import LogQuery, PluginContext, UsageQuery, UsageRecord
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.records import newest_first, timestamp, usage_record, varied_records
from relay_gateway_log_database import DatabaseSink, DatabaseSinkConfig
from relay_gateway_log_database.config import USAGE_FILE, locate
from relay_gateway_log_database.engine import make_engine
from relay_gateway_log_database.rows import microseconds

TEXTS = [
    "client_request_id",
    "mode",
    "endpoint",
    "wire_format",
    "outcome",
    "error_code",
    "relay_key_id",
    "policy_id",
    "provider_id",
    "model_id",
    "requested_model",
    "upstream_model",
    "host_id",
    "host_key_id",
    "usage_source",
    "currency",
    "instance",
]
COUNTS = [
    "cost_nanos",
    "tokens_input",
    "tokens_output",
    "tokens_cache_read",
    "tokens_cache_write",
    "tokens_cache_write_1h",
    "tokens_reasoning",
    "tokens_audio_input",
    "tokens_audio_output",
]
VERSION_1 = (
    "CREATE TABLE usage_schema (id INTEGER PRIMARY KEY, version INTEGER NOT NULL)",
    "INSERT INTO usage_schema VALUES (1, 1)",
    "CREATE TABLE usage_records (request_id TEXT PRIMARY KEY, started_us BIGINT NOT NULL, "
    + ", ".join(f"{name} TEXT" for name in TEXTS)
    + ", status BIGINT NOT NULL, streamed BOOLEAN NOT NULL, unpriced BOOLEAN NOT NULL, "
    "duration_ms DOUBLE PRECISION NOT NULL, ttft_ms DOUBLE PRECISION, "
    + ", ".join(f"{name} BIGINT" for name in COUNTS)
    + ", tags TEXT NOT NULL, record TEXT NOT NULL)",
    "CREATE INDEX usage_records_started ON usage_records (started_us, request_id)",
)
INSERT = text(
    "INSERT INTO usage_records (request_id, started_us, status, streamed, unpriced, duration_ms, "
    "tags, record) VALUES (:id, :started, 200, false, false, 1.0, '{}', :record)"
)


@pytest.fixture
async def context(database_url: str, tmp_path: Path) -> AsyncIterator[PluginContext]:
    context = plugin_context(tmp_path, plugin="database", database_url=database_url)
    yield context
    await context.aclose()


@pytest.fixture
async def engine(context: PluginContext) -> AsyncIterator[AsyncEngine]:
    engine = make_engine(locate(DatabaseSinkConfig(), context, USAGE_FILE))
    async with engine.begin() as connection:
        for statement in VERSION_1:
            await connection.execute(text(statement))
    yield engine
    await engine.dispose()


async def put(engine: AsyncEngine, records: Sequence[UsageRecord]) -> None:
    """Writes records as version 1 did."""
    values = [
        {
            "id": record.request_id,
            "started": microseconds(record.started_at),
            "record": msgspec.json.encode(record).decode(),
        }
        for record in records
    ]
    async with engine.begin() as connection:
        await connection.execute(INSERT, values)


def day_of_records(number: int) -> list[UsageRecord]:
    return [
        msgspec.structs.replace(record, started_at=timestamp(60.0 * place))
        for place, record in enumerate(varied_records(number))
    ]


async def left(engine: AsyncEngine) -> int:
    async with engine.connect() as connection:
        return int(await connection.scalar(text("SELECT count(*) FROM usage_records")))


async def all_of(sink: DatabaseSink) -> list[UsageRecord]:
    page = await sink.query(LogQuery(limit=1000))
    following = await sink.query(LogQuery(limit=1000, cursor=page.next_cursor or None))
    return [*page.items, *(following.items if page.next_cursor else ())]


async def test_records_of_version_1_are_moved_unchanged(
    engine: AsyncEngine, context: PluginContext
) -> None:
    records = day_of_records(1300)
    await put(engine, records)
    sink = DatabaseSink(DatabaseSinkConfig(), context)
    await sink.aopen()
    new = usage_record(started_at=timestamp(90_000))
    await sink.write([new])
    await sink._database.upkeep.run_once()
    assert await all_of(sink) == newest_first([*records, new])
    assert [row.requests for row in await sink.summarize(UsageQuery())] == [1301]
    sink._answers.exact = 0
    assert [row.requests for row in await sink.summarize(UsageQuery())] == [1301]
    await sink.aclose()
    assert await left(engine) == 0


async def test_a_move_that_was_cut_off_is_done_again_without_doubling(
    engine: AsyncEngine, context: PluginContext
) -> None:
    records = day_of_records(300)
    await put(engine, records)
    sink = DatabaseSink(DatabaseSinkConfig(), context)
    await sink.aopen()
    await sink.write(records[:200])  # what a move had done when it was killed
    await sink._database.upkeep.run_once()
    sink._answers.exact = 0
    assert [row.requests for row in await sink.summarize(UsageQuery())] == [300]
    await sink.aclose()


async def test_what_an_instance_of_version_1_still_writes_is_moved_too(
    engine: AsyncEngine, context: PluginContext
) -> None:
    sink = DatabaseSink(DatabaseSinkConfig(), context)
    await sink.aopen()
    await sink._database.upkeep.run_once()
    late = day_of_records(5)
    await put(engine, late)
    await sink._database.upkeep.run_once()
    assert await all_of(sink) == newest_first(late)
    await sink.aclose()


async def test_instances_that_move_at_once_double_nothing(
    engine: AsyncEngine, context: PluginContext
) -> None:
    await put(engine, day_of_records(700))
    sinks = [DatabaseSink(DatabaseSinkConfig(), context) for _ in range(3)]
    for sink in sinks:
        await sink.aopen()
    for _ in range(3):  # one that had to give way to another tries again
        await asyncio.gather(*(one._database.upkeep.run_once() for one in sinks))
    sinks[0]._answers.exact = 0
    assert [row.requests for row in await sinks[0].summarize(UsageQuery())] == [700]
    assert len(await all_of(sinks[0])) == 700
    for sink in sinks:
        await sink.aclose()


async def test_a_sqlite_file_of_version_1_gives_its_space_back(tmp_path: Path) -> None:
    file = tmp_path / USAGE_FILE
    old = sqlite3.connect(file)
    old.execute("PRAGMA page_size=16384")
    old.execute("PRAGMA journal_mode=WAL")
    for statement in VERSION_1:
        old.execute(statement)
    for record in day_of_records(1000):
        encoded = msgspec.json.encode(record).decode() + " " * 2000
        started = microseconds(record.started_at)
        old.execute(
            "INSERT INTO usage_records (request_id, started_us, status, streamed, unpriced, "
            "duration_ms, tags, record) VALUES (?, ?, 200, 0, 0, 1.0, '{}', ?)",
            (record.request_id, started, encoded),
        )
    old.commit()
    old.close()
    before = file.stat().st_size
    context = plugin_context(tmp_path, plugin="database")
    sink = DatabaseSink(DatabaseSinkConfig(), context)
    await sink.aopen()
    await sink._database.upkeep.run_once()
    await sink.aclose()
    await context.aclose()
    assert file.stat().st_size < before / 2
    connection = sqlite3.connect(file)
    assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2,)  # incremental
    connection.close()
