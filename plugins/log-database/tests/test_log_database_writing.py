"""How batches are written: in slices that leave the event loop its time, whole, and durably."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.plugin import PluginContext, UsageQuery, UsageRecord
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.records import usage_record
from relay_gateway_log_database import DatabaseSink, DatabaseSinkConfig
from relay_gateway_log_database.config import DAY_SECONDS
from relay_gateway_log_database.names import Numbers
from relay_gateway_log_database.sqlite_file import SqliteFile
from relay_gateway_log_database.sqlite_writer import ROWS, SqliteWriter, portions


def batch(size: int) -> list[UsageRecord]:
    return [usage_record() for _ in range(size)]


async def count(sink: DatabaseSink) -> int:
    return sum(row.requests for row in await sink.summarize(UsageQuery()))


@pytest.fixture
async def context(tmp_path: Path) -> AsyncIterator[PluginContext]:
    context = plugin_context(tmp_path, plugin="database")
    yield context
    await context.aclose()


@pytest.fixture
async def file(context: PluginContext) -> Path:
    """A SQLite file with the tables, which nobody has open."""
    sink = DatabaseSink(DatabaseSinkConfig(), context)
    await sink.aopen()
    await sink.aclose()
    return context.data_dir / "usage.sqlite3"


def rows_in(file: Path) -> int:
    connection = sqlite3.connect(file)
    (number,) = connection.execute("SELECT count(*) FROM usage_rows").fetchone()
    connection.close()
    return int(number)


@pytest.mark.parametrize("size", [1, ROWS - 1, ROWS, ROWS + 1, 3 * ROWS, 10 * ROWS + 7])
async def test_a_batch_of_any_size_is_written_whole(sink: DatabaseSink, size: int) -> None:
    written = batch(size)
    await sink.write(written)
    assert await count(sink) == size
    assert await sink.get(written[-1].request_id) == written[-1]


async def test_the_event_loop_turns_between_the_slices_of_a_batch(sink: DatabaseSink) -> None:
    writing = asyncio.create_task(sink.write(batch(10 * ROWS)))
    turns = 0
    while not writing.done():
        await asyncio.sleep(0)
        turns += 1
    await writing
    assert turns >= 10  # one for each statement, at least


@pytest.mark.parametrize(("size", "calls"), [(1, 1), (ROWS, 1), (ROWS + 1, 8)])
async def test_a_batch_of_few_records_is_one_call_of_a_thread(
    file: Path, context: PluginContext, monkeypatch: pytest.MonkeyPatch, size: int, calls: int
) -> None:
    # Two calls for the names, two for the rows, one for each rollup, the end, and what is kept.
    opened = await SqliteFile.open(str(file), 1.0, context)
    made, run = [], PluginContext.run_blocking

    async def counted(self: PluginContext, call: Callable[..., object], *args: object) -> object:
        made.append(call)
        return await run(self, call, *args)

    monkeypatch.setattr(PluginContext, "run_blocking", counted)
    await SqliteWriter(opened, context).write(batch(size))
    assert len(made) == calls
    await opened.aclose()
    assert rows_in(file) == size


def test_whoever_has_begun_with_the_names_of_a_day_can_end_with_them() -> None:
    clock = FakeClock()
    numbers = Numbers(clock)
    day, known = numbers.today()
    known["a"] = 1
    assert numbers.today() == (day, {"a": 1})
    clock.advance(DAY_SECONDS)
    assert numbers.today() == (day + 1, {})  # where each name is noted once more
    assert known == {"a": 1}


async def test_names_that_were_not_kept_are_asked_for_again(
    file: Path, context: PluginContext
) -> None:
    class Connection(sqlite3.Connection):
        refuses = True

        def commit(self) -> None:
            if self.refuses:
                raise sqlite3.OperationalError("disk I/O error")
            super().commit()

    connection = sqlite3.connect(
        file, isolation_level="IMMEDIATE", check_same_thread=False, factory=Connection
    )
    opened = SqliteFile(connection, context)
    writer, written = SqliteWriter(opened, context), batch(2)
    with pytest.raises(sqlite3.OperationalError, match="I/O"):
        await writer.write(written)
    connection.refuses = False
    await writer.write(written)
    unnamed = connection.execute(
        "SELECT count(*) FROM usage_rows WHERE instance NOT IN (SELECT id FROM usage_names)"
    )
    assert unnamed.fetchone() == (0,)
    await opened.aclose()
    assert rows_in(file) == 2


async def test_a_call_that_fails_leaves_nothing_and_the_next_change_is_kept(
    file: Path, context: PluginContext
) -> None:
    opened = await SqliteFile.open(str(file), 1.0, context)
    note = "INSERT INTO usage_names (text, used_on) VALUES (?, 1)"

    def fail(connection: sqlite3.Connection) -> None:
        connection.execute(note, ("lost",))
        raise ValueError("made up")

    with pytest.raises(ValueError, match="made up"):
        await opened.change(fail)
    with pytest.raises(ValueError, match="made up"):
        await opened.change_by_steps(map(fail, [opened.connection]))
    await opened.change(lambda connection: connection.execute(note, ("kept",)))
    found = opened.connection.execute("SELECT text FROM usage_names WHERE used_on = 1")
    assert [text for (text,) in found] == ["kept"]
    await opened.aclose()


async def test_f16_a_write_that_the_database_refuses_is_unavailable_and_then_goes_on(
    sink: DatabaseSink,
) -> None:
    engine = sink._database.store.engine
    async with engine.begin() as connection:
        await connection.exec_driver_sql("ALTER TABLE usage_rows RENAME TO elsewhere")
    with pytest.raises(StorageUnavailableError, match="cannot be asked right now"):
        await sink.write(batch(3))
    async with engine.begin() as connection:
        await connection.exec_driver_sql("ALTER TABLE elsewhere RENAME TO usage_rows")
    await sink.write(batch(3))
    assert await count(sink) == 3


async def test_a_writer_that_had_to_wait_too_long_for_another_can_write_afterwards(
    file: Path, context: PluginContext
) -> None:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    opened = await SqliteFile.open(str(file), 0.01, context)
    writer = SqliteWriter(opened, context)
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        await writer.write(batch(2))
    other.execute("ROLLBACK")
    other.close()
    await writer.write(batch(2))
    await opened.aclose()
    assert rows_in(file) == 2


async def test_f25_on_sqlite_a_write_waits_for_the_disk(file: Path, context: PluginContext) -> None:
    writer = await SqliteFile.open(str(file), 1.0, context)
    assert writer.connection.execute("PRAGMA synchronous").fetchone() == (2,)  # FULL
    assert writer.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    await writer.aclose()


def test_batches_of_every_size_need_few_statements() -> None:
    sizes = set()
    for number in range(3 * ROWS):
        items = list(range(number))
        pieces = list(portions(items))
        assert [item for piece in pieces for item in piece] == items
        sizes |= {len(piece) for piece in pieces}
    assert len(sizes) == 19
