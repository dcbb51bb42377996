"""The runs of the data path's tests at full length; each logs its figure."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay_gateway.testing.behind import Behind
from relay_gateway.testing.big_world import BigWorld, big_world
from relay_gateway.testing.crowd import Crowd
from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.json_judge import judge_body
from relay_gateway.testing.json_reference import JsonMutator
from relay_gateway.testing.memory import MIB
from relay_gateway.testing.mutation import Mutator
from relay_gateway.testing.nonces import NonceUpstream, desert
from relay_gateway.testing.sse_judge import StreamMaker, judge_stream
from relay_gateway.testing.wire_judge import judge, read_by_h11, read_by_us

STREAM_BYTES = 2048 * MIB

_log = logging.getLogger(__name__)


def seed() -> int:
    """Another one for each run; it is logged, so that a failure can be repeated."""
    chosen = time.time_ns() % 2**32
    _log.info("seed %d", chosen)
    return chosen


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[BigWorld]:
    async with big_world(tmp_path, adapter="openai", stream_bytes=STREAM_BYTES) as world:
        yield world


async def test_r21_half_a_million_changed_requests() -> None:
    mutator = Mutator(seed())
    statuses: Counter[int] = Counter()
    for _ in range(500_000):
        data = mutator.request()
        verdict = await read_by_us(mutator.pieces(data))
        judge(verdict, read_by_h11(data))
        statuses.update(verdict.statuses)
    _log.info("answers: %s", dict(statuses))


def test_r22_a_million_changed_bodies() -> None:
    mutator = JsonMutator(seed())
    accepted = sum(judge_body(mutator.body()) for _ in range(1_000_000))
    _log.info("accepted: %d", accepted)


def test_r23_a_million_streams() -> None:
    maker = StreamMaker(seed())
    for _ in range(500_000):  # each with usage and without
        stream = maker.stream()
        judge_stream(stream, maker.pieces(stream.data))


async def test_t17_seventy_thousand_changed_requests_behind_each_front(behind: Behind) -> None:
    crowd = Crowd(behind.port, seed=seed(), count=70_000)
    await crowd.run()
    compared = behind.check_books()
    _log.info("%s: %d compared, answers %s", behind.front.name, compared, dict(crowd.statuses))


async def test_r16_r29_hundred_thousand_cancellations(tmp_path: Path) -> None:
    requests = 250_000  # four of nine callers leave
    async with (
        NonceUpstream(seed()) as upstream,
        DataPath(tmp_path, {"m": upstream.url + "/v1"}) as path,
    ):
        callers = await desert(path, seed=seed(), requests=requests)
        outcomes = Counter(record.outcome for record in path.records)
    _log.info("answered %d, left %d, recorded %s", callers.answered, callers.left, dict(outcomes))
    assert callers.left >= 100_000
    assert max(upstream.seen.values()) <= 2


async def test_r15_fifty_bodies_of_32_mib(world: BigWorld) -> None:
    grown = await world.send_bodies(50, 32 * MIB)
    _log.info("%.1f MiB more", grown / MIB)
    assert grown <= 200 * MIB


async def test_r15_stream_of_2_gib(world: BigWorld) -> None:
    grown, received = await world.read_stream()
    _log.info("%.0f MiB read, %.1f MiB more", received / MIB, grown / MIB)
    assert received > STREAM_BYTES
    assert grown <= 4 * MIB


async def test_f57_two_hundred_readers_of_2_gib(world: BigWorld) -> None:
    grown = await world.read_nothing(200)
    _log.info("%.1f MiB more", grown / MIB)
    assert grown <= 64 * MIB
