"""The spool's proofs at full length."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.delivery.delivery import Delivery
from relay_gateway.delivery.spool import SpoolTerms
from relay_gateway.plugin import LogQuery, UsageQuery, UsageRecord
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.instances import until
from relay_gateway.testing.kill_loop import run_apart
from relay_gateway.testing.postgres import PostgresServer
from relay_gateway.testing.records import usage_record
from relay_gateway.testing.spools import FAST, SpoolWorld
from relay_gateway_log_database import DatabaseSink, DatabaseSinkConfig

REQUESTS = 100_000
LOST_ANSWERS = 1000


@pytest.fixture(params=["sqlite", "postgresql"])
async def database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[DatabaseSink]:
    """An open database sink without any record."""
    with PostgresServer() as server:
        sqlite = request.param == "sqlite"
        url = f"sqlite:///{tmp_path / 'usage.sqlite3'}" if sqlite else server.create_database()
        context = plugin_context(tmp_path, plugin="database")
        sink = DatabaseSink(DatabaseSinkConfig.model_validate({"url": url}), context)
        await sink.aopen()
        yield sink
        await sink.aclose()
        await context.aclose()


class Forgetful:
    """A sink that takes every batch and fails then, each time the first time."""

    batch_records, batch_bytes, batch_seconds = 500, 1_000_000, 0.001

    def __init__(self, sink: DatabaseSink) -> None:
        self.lost = 0
        self._sink = sink
        self._told = False

    async def write(self, records: Sequence[UsageRecord]) -> None:
        await self._sink.write(records)
        self._told = not self._told
        if self._told:
            self.lost += 1
            raise ConnectionError("the answer was lost")


@pytest.mark.parametrize("seed", range(5))
async def test_r2_two_hundred_kills_five_times_lose_nothing(tmp_path: Path, seed: int) -> None:
    verdict = await run_apart(tmp_path, 200, seed)
    assert verdict.answered > 20_000
    assert (verdict.lost, verdict.wrong, verdict.invented) == ((), (), ())


async def test_f16_a_hundred_thousand_requests_while_the_sink_is_down_arrive_in_order(
    tmp_path: Path,
) -> None:
    world = SpoolWorld(tmp_path, "one")
    world.sinks["one"].down = True
    delivery = await world.open(terms=SpoolTerms())
    sent = []
    for count in range(REQUESTS):
        record = usage_record()
        sent.append(record.request_id)
        delivery.put(record)
        if count % 1000 == 0:
            await delivery.spool.tend()
    assert delivery.lines[0].depth == REQUESTS
    world.sinks["one"].down = False
    await until(lambda: len(world.sinks["one"].records) == REQUESTS, seconds=120)
    await world.close(delivery)
    assert world.sinks["one"].ids == sent


async def test_f18_an_acknowledgement_lost_a_thousand_times_doubles_nothing_in_a_keeping_sink(
    tmp_path: Path,
) -> None:
    world = SpoolWorld(tmp_path, "one")
    delivery = await world.open()
    sent = []
    for _ in range(1000):
        record = usage_record()
        sent.append(record.request_id)
        world.sinks["one"].forget_answers = 1
        delivery.put(record)
        await until(lambda: delivery.spool.usage.done == len(sent))
    await world.close(delivery)
    arrived = world.sinks["one"].ids
    assert len(arrived) == 2000
    assert list(dict.fromkeys(arrived)) == sent


async def test_f18_an_answer_of_a_database_lost_a_thousand_times_doubles_nothing(
    database: DatabaseSink, tmp_path: Path
) -> None:
    forgetful: Any = Forgetful(database)
    delivery = Delivery(
        tmp_path / "data", lambda _name: forgetful, lambda _name: forgetful,
        lambda _name, _error: None, pace=FAST,
    )  # fmt: skip
    await delivery.open(["database"])
    sent = []
    for _ in range(LOST_ANSWERS):
        record = usage_record()
        sent.append(record.request_id)
        delivery.put(record)
        await until(lambda: delivery.spool.usage.done == len(sent))
    await delivery.aclose(5.0)
    assert forgetful.lost == LOST_ANSWERS
    page = await database.query(LogQuery(limit=LOST_ANSWERS))
    assert page.next_cursor is None
    assert sorted(one.request_id for one in page.items) == sorted(sent)
    database._answers.exact = 0  # so that the sums answer, and not the rows
    (row,) = await database.summarize(UsageQuery())
    assert row.requests == LOST_ANSWERS
