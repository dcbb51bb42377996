"""Old records go, their space with them, and the totals stay."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from sqlalchemy import text

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.plugin import LogQuery, PayloadRecord, SeriesQuery, UsageQuery, UsageRecord
from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.plugin_tests import new_id
from relay_gateway.testing.records import timestamp, usage_record
from relay_gateway_log_database import (
    DatabasePayloads,
    DatabasePayloadsConfig,
    DatabaseSink,
    DatabaseSinkConfig,
    partitions,
)

DAY = 86_400
KEPT = DatabaseSinkConfig(retention_days=7, rollup_retention_days=30)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def keeping(
    database_url: str, tmp_path: Path, clock: FakeClock
) -> AsyncIterator[DatabaseSink]:
    """A sink that keeps records for a week, and sums for a month."""
    context = plugin_context(tmp_path, plugin="database", database_url=database_url, clock=clock)
    sink = DatabaseSink(KEPT, context)
    await sink.aopen()
    yield sink
    await sink.aclose()
    await context.aclose()


def records_of(day: float, number: int, **fields: Any) -> list[UsageRecord]:
    """Records that began so many days after the clock's first moment."""
    return [
        usage_record(started_at=timestamp(day * DAY + second), **fields) for second in range(number)
    ]


async def upkeep(sink: DatabaseSink | DatabasePayloads) -> None:
    await sink._database.upkeep.run_once()


async def listed(sink: DatabaseSink) -> int:
    return len((await sink.query(LogQuery(limit=1000))).items)


async def rows_of(sink: DatabaseSink, statement: str) -> list[Any]:
    async with sink._database.store.engine.connect() as connection:
        return [tuple(row) for row in await connection.execute(text(statement))]


async def test_records_that_are_no_longer_kept_are_deleted_and_others_stay(
    keeping: DatabaseSink, clock: FakeClock
) -> None:
    await keeping.write([*records_of(-6, 20), *records_of(0, 30)])
    await upkeep(keeping)
    assert await listed(keeping) == 50
    clock.advance(3 * DAY)
    await upkeep(keeping)
    assert await listed(keeping) == 30


async def test_totals_of_deleted_records_come_from_the_sums(
    keeping: DatabaseSink, clock: FakeClock
) -> None:
    await keeping.write([*records_of(-6, 20), *records_of(0, 30)])
    clock.advance(3 * DAY)
    await upkeep(keeping)
    assert [row.requests for row in await keeping.summarize(UsageQuery())] == [50]
    # From the middle of the hour: of deleted records only whole hours are known.
    query = SeriesQuery(start=timestamp(-6 * DAY + 10), end=timestamp(2 * DAY), interval="day")
    points = await keeping.timeseries(query)
    assert [point.row.requests for point in points] == [20, 30]


async def test_sums_and_names_go_after_their_own_time(
    keeping: DatabaseSink, clock: FakeClock
) -> None:
    await keeping.write(records_of(0, 5, model_id="forgotten"))
    clock.advance(20 * DAY)
    await keeping.write(records_of(20, 5, model_id="remembered"))
    clock.advance(15 * DAY)
    await upkeep(keeping)
    (row,) = await keeping.summarize(UsageQuery(group_by=("model",)))
    assert row.group == {"model": "remembered"}
    names = {name for (name,) in await rows_of(keeping, "SELECT text FROM usage_names")}
    assert "remembered" in names
    assert "forgotten" not in names
    # A name that comes back is one like any other.
    await keeping.write(records_of(35, 1, model_id="forgotten"))
    assert (await keeping.query(LogQuery(equals={"modelId": "forgotten"}))).items != ()


async def test_a_name_in_daily_use_stays(keeping: DatabaseSink, clock: FakeClock) -> None:
    for day in range(0, 60, 5):
        await keeping.write(records_of(day, 2, model_id="daily"))
        await upkeep(keeping)
        clock.advance(5 * DAY)
    newest = (await keeping.query(LogQuery(limit=1))).items[0]
    assert newest.model_id == "daily"
    assert (await keeping.summarize(UsageQuery(group_by=("model",))))[0].group["model"] == "daily"


async def test_on_sqlite_the_file_becomes_smaller(tmp_path: Path, clock: FakeClock) -> None:
    context = plugin_context(tmp_path, plugin="database", clock=clock)
    sink = DatabaseSink(KEPT, context)
    await sink.aopen()
    for _ in range(10):
        await sink.write(records_of(0, 500, client_ip="x" * 200))
    await sink.aclose()  # checkpoints
    before = (tmp_path / "usage.sqlite3").stat().st_size
    clock.advance(10 * DAY)
    await sink.aopen()
    await upkeep(sink)
    await sink.aclose()
    await context.aclose()
    after = (tmp_path / "usage.sqlite3").stat().st_size
    assert after < before / 4


@pytest.fixture
async def on_postgresql(
    request: pytest.FixtureRequest, tmp_path: Path, clock: FakeClock
) -> AsyncIterator[Callable[[], DatabaseSink]]:
    """Makes sinks on one PostgreSQL database, and closes them."""
    url = request.getfixturevalue("postgres").create_database()
    context = plugin_context(tmp_path, plugin="database", database_url=url, clock=clock)
    made: list[DatabaseSink] = []

    def make() -> DatabaseSink:
        made.append(DatabaseSink(KEPT, context))
        return made[-1]

    yield make
    for sink in made:
        await sink.aclose()
    await context.aclose()
    request.getfixturevalue("postgres").drop_database(url)


async def days_of(sink: DatabaseSink, table: str = "usage_rows") -> list[str]:
    found = await rows_of(
        sink,
        "SELECT child.relname FROM pg_inherits JOIN pg_class child ON child.oid = inhrelid "
        f"WHERE inhparent = '{table}'::regclass AND child.relname <> '{table}_other' ORDER BY 1",
    )
    return [name.removeprefix(f"{table}_") for (name,) in found]


async def other_of(sink: DatabaseSink) -> int:
    ((number,),) = await rows_of(sink, "SELECT count(*) FROM usage_rows_other")
    return int(number)


async def test_days_are_made_ahead_and_dropped_whole(
    on_postgresql: Callable[[], DatabaseSink], clock: FakeClock
) -> None:
    sink = on_postgresql()
    await sink.aopen()
    assert await days_of(sink) == ["20260101", "20260102", "20260103"]
    await sink.write(records_of(-2, 5))
    assert await days_of(sink) == ["20251230", "20260101", "20260102", "20260103"]
    clock.advance(6 * DAY)
    await upkeep(sink)
    days = await days_of(sink)
    assert days == ["20260101", "20260102", "20260103", "20260107", "20260108", "20260109"]
    assert await listed(sink) == 0
    assert await other_of(sink) == 0


async def test_strays_lie_in_the_partition_of_all_others_and_go_too(
    on_postgresql: Callable[[], DatabaseSink], clock: FakeClock
) -> None:
    sink = on_postgresql()
    await sink.aopen()
    strays = [*records_of(-5000, 2), *records_of(500, 2)]
    await sink.write(strays)
    await sink.write(strays)
    assert await other_of(sink) == 4
    assert await listed(sink) == 4
    await upkeep(sink)
    assert await listed(sink) == 2


async def test_a_day_takes_over_what_came_before_it_was_made(
    on_postgresql: Callable[[], DatabaseSink], clock: FakeClock
) -> None:
    sink = on_postgresql()
    await sink.aopen()
    early = records_of(6, 3)
    await sink.write(early)
    assert await other_of(sink) == 3
    clock.advance(6 * DAY)
    await sink.write(early)
    assert await other_of(sink) == 0
    assert await listed(sink) == 3
    assert await sink.get(early[0].request_id) == early[0]
    assert [row.requests for row in await sink.summarize(UsageQuery())] == [3]


async def test_instances_that_need_a_new_day_at_once_share_it(
    on_postgresql: Callable[[], DatabaseSink], clock: FakeClock
) -> None:
    sinks = [on_postgresql() for _ in range(4)]
    for sink in sinks:
        await sink.aopen()
    clock.advance(5 * DAY)
    await asyncio.gather(*(sink.write(records_of(5, 20)) for sink in sinks))
    await asyncio.gather(*(upkeep(sink) for sink in sinks))
    assert await listed(sinks[0]) == 80
    assert await other_of(sinks[0]) == 0


async def test_a_change_of_partitions_does_not_wait_for_a_long_query(
    on_postgresql: Callable[[], DatabaseSink],
    clock: FakeClock,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(partitions, "PATIENCE", "SET LOCAL lock_timeout = '100ms'")
    sink = on_postgresql()
    await sink.aopen()
    await sink.write(records_of(0, 3))
    clock.advance(20 * DAY)
    async with sink._database.store.engine.connect() as reader:
        await reader.execute(text("SELECT count(*) FROM usage_rows"))
        await upkeep(sink)
        assert "upkeep is continued later" in caplog.text
        await reader.rollback()
    await upkeep(sink)
    assert await listed(sink) == 0


def payload(day: float) -> PayloadRecord:
    return PayloadRecord(
        request_id=new_id(), started_at=timestamp(day * DAY), request=b"a" * 500, response=b"b"
    )


async def test_payloads_are_kept_for_a_week_unless_told_otherwise(
    database_url: str, tmp_path: Path, clock: FakeClock
) -> None:
    context = plugin_context(tmp_path, plugin="database", database_url=database_url, clock=clock)
    payloads = DatabasePayloads(DatabasePayloadsConfig(), context)
    await payloads.aopen()
    old, new = payload(-1), payload(0)
    await payloads.write([old, new])
    clock.advance(7 * DAY)
    await upkeep(payloads)
    assert await payloads.read(old.request_id) is None
    assert await payloads.read(new.request_id) == new
    await payloads.aclose()
    await context.aclose()


async def test_payloads_share_a_database_with_usage(
    keeping: DatabaseSink, database_url: str, tmp_path: Path
) -> None:
    payloads = DatabasePayloads(DatabasePayloadsConfig(), keeping.context)
    with pytest.raises(StorageUnavailableError, match="not open"):
        await payloads.read(new_id())
    await payloads.aopen()
    one = payload(0)
    await payloads.write([one])
    assert await payloads.read(one.request_id) == one
    await payloads.aclose()
    on_sqlite = database_url.startswith("sqlite")
    assert (tmp_path / "payloads.sqlite3").exists() == on_sqlite


async def test_payloads_are_compressed(tmp_path: Path) -> None:
    context = plugin_context(tmp_path, plugin="database")
    payloads = DatabasePayloads(DatabasePayloadsConfig(), context)
    await payloads.aopen()
    large = b'{"role": "user", "content": "the same again"}' * 20_000
    record = PayloadRecord(
        request_id=new_id(), started_at=timestamp(), request=large, response=large
    )
    await payloads.write([record])
    assert await payloads.read(record.request_id) == record
    await payloads.aclose()
    await context.aclose()
    assert (tmp_path / "payloads.sqlite3").stat().st_size < len(large) / 4


@pytest.mark.parametrize(
    "options",
    [
        {"rollup_retention_days": 30},
        {"retention_days": 31, "rollup_retention_days": 30},
    ],
)
def test_sums_cannot_go_before_the_records(options: dict[str, int]) -> None:
    with pytest.raises(ValidationError, match="must be kept as long at least"):
        DatabaseSinkConfig(**options)  # type: ignore[arg-type]
