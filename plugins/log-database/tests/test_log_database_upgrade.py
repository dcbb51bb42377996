"""A database of version 2 gets the sums per policy that it lacks, once."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from sqlalchemy import text

from relay_gateway.plugin import SeriesQuery, UsageQuery, UsageReader
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.records import timestamp, varied_records
from relay_gateway_log_database import DatabaseSink, DatabaseSinkConfig
from relay_gateway_log_database.rollups import BY_POLICY

DAY = 86_400
DAYS = 40
"""More steps than are added up at once, by the hour and by the day."""
QUERIES = (
    UsageQuery(group_by=("policy",)),
    SeriesQuery(group_by=("policy",), interval="day"),
    SeriesQuery(group_by=("policy",), interval="hour", end=timestamp(2 * DAY)),
    SeriesQuery(interval="day", equals={"policyId": "policy-1"}),
)


@asynccontextmanager
async def opened(url: str, directory: Path) -> AsyncIterator[DatabaseSink]:
    context = plugin_context(directory, plugin="database", database_url=url)
    sink = DatabaseSink(DatabaseSinkConfig(), context)
    await sink.aopen()
    sink._answers.exact = 0
    try:
        yield sink
    finally:
        await sink.aclose()
        await context.aclose()


async def answers(sink: UsageReader) -> list[object]:
    return [
        await (sink.timeseries(one) if isinstance(one, SeriesQuery) else sink.summarize(one))
        for one in QUERIES
    ]


async def made_old(sink: DatabaseSink) -> None:
    async with sink._database.store.engine.begin() as connection:
        for rollup in ("usage_hourly", "usage_daily"):
            view = {"view": BY_POLICY}
            await connection.execute(text(f"DELETE FROM {rollup} WHERE view = :view"), view)
        await connection.execute(text("UPDATE usage_schema SET version = 2"))


async def test_sums_per_policy_are_made_of_those_per_relay_key(
    tables_url: str, tmp_path: Path
) -> None:
    dice = random.Random(11)
    records = [
        msgspec.structs.replace(record, started_at=timestamp(dice.uniform(0, DAYS * DAY)))
        for record in varied_records(400)
    ]
    async with opened(tables_url, tmp_path) as sink:
        await sink.write(records)
        before = await answers(sink)
        await made_old(sink)
        assert await answers(sink) != before
    for _ in range(2):
        async with opened(tables_url, tmp_path) as sink:
            assert await answers(sink) == before
            await sink.write(records)
    async with opened(tables_url, tmp_path) as sink:
        more = [msgspec.structs.replace(one, policy_id="policy-0") for one in varied_records(3)]
        await sink.write(more)
        (row,) = await sink.summarize(UsageQuery(equals={"policyId": "policy-0"}))
        old = sum(one.policy_id == "policy-0" for one in records)
        assert row.requests == old + len(more)
