"""Many records: lists come from an index, and sums agree with rows. Millions have a run of their
own, tests/usage_long."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from itertools import islice
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncConnection

from relay_gateway.plugin import LogQuery, SeriesQuery, UsageQuery
from relay_gateway.testing.clock import DEFAULT_TIME
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.postgres import PostgresServer
from relay_gateway.testing.records import timestamp
from relay_gateway.testing.usage_month import RARE_KEY, month_of_records
from relay_gateway_log_database import DatabaseSink, DatabaseSinkConfig
from relay_gateway_log_database.filters import conditions_of
from relay_gateway_log_database.pages import page_statement

RECORDS = 10_000
DAYS = 2
DAY = 86_400.0

INDEXED: Mapping[str, LogQuery] = {
    "relay_key_id": LogQuery(equals={"relayKeyId": RARE_KEY}),
    "model_id": LogQuery(equals={"modelId": "model-3"}, end=timestamp(-DAY)),
    "policy_id": LogQuery(equals={"policyId": "policy-3"}, start=timestamp(-DAY)),
    "host_key_id": LogQuery(equals={"hostKeyId": "key-3"}),
    "error_code": LogQuery(equals={"errorCode": "rate_limit_exceeded"}),
    "failed": LogQuery(equals={"outcome": "timeout"}),
    "status": LogQuery(equals={"status": 500}),
}
"""Queries, by the index that must answer them, without sorting and without reading a table."""


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def days_url(
    request: pytest.FixtureRequest,
    postgres: PostgresServer,
    tmp_path_factory: pytest.TempPathFactory,
) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path_factory.mktemp('days') / 'usage.sqlite3'}"
    return postgres.create_database()


@pytest.fixture
async def busy_days(days_url: str, tmp_path: Path) -> AsyncIterator[DatabaseSink]:
    """A sink with two days of records, which the first test writes."""
    context = plugin_context(tmp_path, plugin="database")
    config = DatabaseSinkConfig.model_validate({"url": days_url})
    sink = DatabaseSink(config, context)
    await sink.aopen()
    if not (await sink.query(LogQuery(limit=1))).items:
        records = month_of_records(RECORDS, DEFAULT_TIME, days=DAYS)
        while batch := list(islice(records, sink.batch_records)):
            await sink.write(batch)
    yield sink
    await sink.aclose()
    await context.aclose()


async def plan_of(connection: AsyncConnection, query: LogQuery) -> str:
    """What the database would do, one step a line."""
    statement = page_statement(await conditions_of(connection, query), query.limit)
    compiled = statement.compile(dialect=connection.dialect)
    values = tuple(compiled.params[name] for name in compiled.positiontup or ())
    word = "EXPLAIN" if connection.dialect.name == "postgresql" else "EXPLAIN QUERY PLAN"
    steps = await connection.exec_driver_sql(f"{word} {compiled}", values)
    return "\n".join(str(step[-1]) for step in steps)


@pytest.mark.parametrize("index", INDEXED)
async def test_a_filtered_list_is_read_from_its_index(busy_days: DatabaseSink, index: str) -> None:
    engine = busy_days._database.store.engine
    async with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            # Days of a test are so small that it would rather read and sort them.
            for choice in ("seqscan", "bitmapscan", "sort"):
                await connection.exec_driver_sql(f"SET enable_{choice} = off")
        plan = await plan_of(connection, INDEXED[index])
    if engine.dialect.name == "sqlite":
        assert f"usage_rows_{index}" in plan
        assert "TEMP B-TREE" not in plan
    else:
        assert "Merge Append" in plan
        assert "Sort  (" not in plan
        assert f"_{'outcome' if index == 'failed' else index}_" in plan


async def test_the_first_page_is_the_newest(busy_days: DatabaseSink) -> None:
    page = await busy_days.query(LogQuery(limit=100))
    newest = list(month_of_records(RECORDS, DEFAULT_TIME, days=DAYS))[-100:]
    assert list(page.items) == newest[::-1]


async def test_totals_from_sums_is_that_of_rows(busy_days: DatabaseSink) -> None:
    busy_days._answers.exact = 0
    sums = await busy_days.summarize(UsageQuery(group_by=("provider",)))
    busy_days._answers.exact = 10 * RECORDS
    rows = await busy_days.summarize(UsageQuery(group_by=("provider",)))
    assert [(one.group, one.requests, one.errors, one.tokens, one.cost_nanos) for one in sums] == [
        (one.group, one.requests, one.errors, one.tokens, one.cost_nanos) for one in rows
    ]
    for approximate, exact in zip(sums, rows, strict=True):
        for percent in ("p50", "p95", "p99"):
            found, wanted = approximate.duration_ms[percent], exact.duration_ms[percent]
            # Far better than the bound of the histogram, where there are this many.
            assert found == pytest.approx(wanted, rel=0.2)


async def test_beyond_the_exact_number_sums_answer_a_series(
    busy_days: DatabaseSink,
) -> None:
    points = await busy_days.timeseries(SeriesQuery(start=timestamp(-DAYS * DAY), interval="hour"))
    assert len(points) == DAYS * 24
    assert sum(point.row.requests for point in points) == RECORDS
    assert [point.start for point in points] == sorted(point.start for point in points)
