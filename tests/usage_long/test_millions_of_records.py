"""How fast millions of usage records are written, and how fast they are read again."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from relay_gateway.delivery.delivery import Delivery
from relay_gateway.plugin import LogQuery, SeriesQuery, UsageQuery, UsageRecord
from relay_gateway.server.serving import settle_memory
from relay_gateway.testing.clock import DEFAULT_TIME
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.instances import until
from relay_gateway.testing.postgres import PostgresServer
from relay_gateway.testing.records import timestamp
from relay_gateway.testing.usage_month import RARE_KEY, month_of_records
from relay_gateway_log_database import DatabaseSink, DatabaseSinkConfig

RECORDS = int(os.environ.get("USAGE_RECORDS", "5000000"))
DRAINED = 100_000
"""Records that wait in a spool while the sink is down, as many as come in 20 seconds at ``RATE``.
"""
REPEATED = 5
RATE = 5000
DAY = 86_400.0
KEPT_DAYS = 15
RETURNED_BYTES = 100
"""So much per record is given back at least when half of them go; a record takes 300 or more."""

_log = logging.getLogger(__name__)

PAGES: Mapping[str, LogQuery] = {
    "page, first page": LogQuery(),
    "page, relay key": LogQuery(equals={"relayKeyId": "relay-007"}),
    "page, rare relay key": LogQuery(equals={"relayKeyId": RARE_KEY}),
    "page, model": LogQuery(equals={"modelId": "model-3"}),
    "page, host": LogQuery(equals={"hostId": "host-3"}),
    "page, policy": LogQuery(equals={"policyId": "policy-3"}),
    "page, outcome": LogQuery(equals={"outcome": "upstream_error"}),
    "page, outcome nobody has": LogQuery(equals={"outcome": "timeout"}),
    "page, status": LogQuery(equals={"status": 429}),
    "page, error code": LogQuery(equals={"errorCode": "rate_limit_exceeded"}),
    "page, unknown relay key": LogQuery(equals={"relayKeyId": "absent"}),
    "page, relay key and model": LogQuery(equals={"relayKeyId": "relay-007", "modelId": "model-7"}),
    "page, relay key two weeks ago": LogQuery(
        equals={"relayKeyId": "relay-007"}, end=timestamp(-14 * DAY)
    ),
    "page, tag": LogQuery(tags={"team": "team-3"}),
    "page, text of a model": LogQuery(text="acme-3"),
    "page, text that occurs nowhere": LogQuery(text="nowhere"),
}
SERIES: Mapping[str, SeriesQuery] = {
    "hourly, 30 days": SeriesQuery(start=timestamp(-30 * DAY)),
    "hourly, 30 days, one model": SeriesQuery(
        start=timestamp(-30 * DAY), equals={"modelId": "model-3"}
    ),
    "hourly, 7 days, by provider": SeriesQuery(
        start=timestamp(-7 * DAY - 1234), group_by=("provider",)
    ),
    "hourly, 7 days, by relay key, eight and the rest": SeriesQuery(
        start=timestamp(-7 * DAY), group_by=("relayKey",), top=8
    ),
    "daily, 30 days, by model": SeriesQuery(
        start=timestamp(-30 * DAY), group_by=("model",), interval="day"
    ),
}
SPLIT: Mapping[str, SeriesQuery] = {
    "hourly, 7 days, by model (3 360 points)": SeriesQuery(
        start=timestamp(-7 * DAY - 1234), group_by=("model",)
    ),
    **{
        f"hourly, 30 days, by {name}, ten and the rest (7 920 points)": SeriesQuery(
            start=timestamp(-30 * DAY), group_by=(name,), top=10
        )
        for name in ("model", "policy", "hostKey", "relayKey")
    },
    "daily, 30 days, by relay key (6 000 points)": SeriesQuery(
        start=timestamp(-30 * DAY), group_by=("relayKey",), interval="day"
    ),
}
"""Each point costs some 30 µs, most of them for its percentiles."""
SUMMARIES: Mapping[str, UsageQuery] = {
    "summary, everything": UsageQuery(),
    "summary, by model": UsageQuery(group_by=("model",)),
    "summary, by relay key": UsageQuery(group_by=("relayKey",)),
    "summary, by model and relay key": UsageQuery(group_by=("model", "relayKey")),
    "summary, one relay key by model": UsageQuery(
        group_by=("model",), equals={"relayKeyId": "relay-007"}
    ),
    "summary, since 36.5 hours by host": UsageQuery(
        group_by=("host",), start=timestamp(-36.5 * 3600)
    ),
}
SLOW: Mapping[str, UsageQuery] = {
    "hourly, 30 days, by provider (3 600 points)": SeriesQuery(
        start=timestamp(-30 * DAY), group_by=("provider",)
    ),
    "hourly, 30 days, by model (14 400 points)": SeriesQuery(
        start=timestamp(-30 * DAY), group_by=("model",)
    ),
    "hourly, 30 days, by policy (14 400 points)": SeriesQuery(
        start=timestamp(-30 * DAY), group_by=("policy",)
    ),
    "hourly, 7 days, by relay key (33 600 points)": SeriesQuery(
        start=timestamp(-7 * DAY), group_by=("relayKey",)
    ),
    "one day by team": UsageQuery(group_by=("tag:team",), start=timestamp(-DAY)),
}
"""Thousands of points, and what only rows know."""
BOUNDS: Sequence[tuple[Mapping[str, LogQuery | UsageQuery], float]] = (
    (PAGES, 0.1),
    (SERIES, 0.3),
    (SPLIT, 0.6),
    (SUMMARIES, 0.3),
    (SLOW, 10.0),
)
"""Queries, and how many seconds each may take."""


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'relay.sqlite3'}"
        return
    with PostgresServer() as server:
        yield server.create_database()


@pytest.fixture
async def sink(database_url: str, tmp_path: Path) -> AsyncIterator[DatabaseSink]:
    context = plugin_context(tmp_path, plugin="database", database_url=database_url)
    sink = DatabaseSink(DatabaseSinkConfig(), context)
    await sink.aopen()
    yield sink
    await sink.aclose()
    await context.aclose()


@pytest.fixture(autouse=True)
def _as_in_a_gateway() -> Iterator[None]:
    """Garbage is collected as rarely as where a sink is served."""
    thresholds = gc.get_threshold()
    settle_memory()
    yield
    gc.unfreeze()
    gc.set_threshold(*thresholds)


async def fill(sink: DatabaseSink) -> float:
    """Writes the month; returns records per second, without the time to make them."""
    records = month_of_records(RECORDS, DEFAULT_TIME)
    spent = 0.0
    while batch := list(islice(records, sink.batch_records)):
        began = time.perf_counter()
        await sink.write(batch)
        spent += time.perf_counter() - began
    return RECORDS / spent


class Held:
    """Hands over to a sink from when ``open`` is set on."""

    def __init__(self, sink: DatabaseSink) -> None:
        self.batch_records = sink.batch_records
        self.batch_bytes = sink.batch_bytes
        self.batch_seconds = sink.batch_seconds
        self.open = asyncio.Event()
        self._sink = sink

    async def write(self, records: Sequence[UsageRecord]) -> None:
        await self.open.wait()
        await self._sink.write(records)


async def drain(sink: DatabaseSink, directory: Path) -> tuple[float, float]:
    """Has a spool fill up and then delivered to ``sink``; records per second, and microseconds of
    this process's CPU per record."""
    held: Any = Held(sink)
    delivery = Delivery(
        directory, lambda _name: held, lambda _name: held, lambda _name, _error: None
    )
    await delivery.open(["database"])
    for number, record in enumerate(
        month_of_records(DRAINED, DEFAULT_TIME + 60, days=DRAINED / RATE / DAY, seed=2)
    ):
        delivery.put(record)
        if number % 1000 == 0:
            await delivery.spool.tend()
    began, used = time.perf_counter(), time.process_time()
    held.open.set()
    await until(lambda: delivery.spool.usage.done == DRAINED, seconds=300)
    spent, used = time.perf_counter() - began, time.process_time() - used
    await delivery.aclose(10)
    return DRAINED / spent, used / DRAINED * 1e6


async def bytes_of(sink: DatabaseSink) -> int:
    """What the database has on the disk."""
    engine = sink._database.store.engine
    if engine.dialect.name == "sqlite":
        return (Path(engine.url.database or "")).stat().st_size
    async with engine.connect() as connection:
        size = await connection.scalar(text("SELECT pg_database_size(current_database())"))
        return int(size or 0)


async def forget(database_url: str, directory: Path) -> tuple[int, int, float]:
    """Has records of the older half deleted; bytes on the disk before and after, and seconds."""
    context = plugin_context(directory, plugin="database", database_url=database_url)
    config = DatabaseSinkConfig(retention_days=KEPT_DAYS)
    sink = DatabaseSink(config, context)
    await sink.aopen()
    before, began = await bytes_of(sink), time.perf_counter()
    await sink._database.upkeep.run_once()
    spent, after = time.perf_counter() - began, await bytes_of(sink)
    await sink.aclose()
    await context.aclose()
    return before, after, spent


async def median(ask: Callable[[], Awaitable[object]]) -> float:
    """Seconds that the middle one of some askings takes."""
    taken = []
    for _ in range(REPEATED):
        began = time.perf_counter()
        await ask()
        taken.append(time.perf_counter() - began)
    return sorted(taken)[REPEATED // 2]


def reading(sink: DatabaseSink, query: LogQuery | UsageQuery) -> Callable[[], Awaitable[object]]:
    """Asks ``query`` of the sink, by what it is."""
    if isinstance(query, LogQuery):
        return lambda: sink.query(query)
    if isinstance(query, SeriesQuery):
        return lambda: sink.timeseries(query)
    return lambda: sink.summarize(query)


async def test_millions_of_records_are_written_and_read_fast(
    sink: DatabaseSink, database_url: str, tmp_path: Path
) -> None:
    engine = database_url.partition(":")[0]
    rate = await fill(sink)
    _log.info("%s: %d records, %.0f written per second", engine, RECORDS, rate)
    drained, cpu = await drain(sink, tmp_path / "spool")
    _log.info("%s: %.0f drained per second, %.1f us of CPU for each", engine, drained, cpu)
    slow = [f"{one:.0f} records per second" for one in (rate, drained) if one < RATE]
    for queries, bound in BOUNDS:
        for name, query in queries.items():
            seconds = await median(reading(sink, query))
            _log.info("%s: %s: %.1f ms", engine, name, seconds * 1000)
            if seconds > bound:
                slow.append(f"{name}: {seconds * 1000:.0f} ms")
    _log.info("%s: load average %.1f", engine, os.getloadavg()[1])
    before, after, spent = await forget(database_url, tmp_path)
    kept = "%s: %.0f MB, of which %.0f are left %.0f seconds after the older half went"
    _log.info(kept, engine, before / 1e6, after / 1e6, spent)
    assert slow == []
    assert before - after > RETURNED_BYTES * RECORDS
