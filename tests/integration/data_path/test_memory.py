"""Memory of a gateway process under large bodies, large streams and readers that do not read."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay_gateway.testing.big_world import BigWorld, big_world
from relay_gateway.testing.memory import MIB

STREAM_BYTES = 256 * MIB


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[BigWorld]:
    async with big_world(tmp_path, adapter="openai", stream_bytes=STREAM_BYTES) as world:
        yield world


async def test_r15_many_large_bodies_at_once_stay_within_bounds(world: BigWorld) -> None:
    assert await world.send_bodies(50, 32 * MIB) <= 200 * MIB


async def test_r15_large_stream_stays_within_bounds(world: BigWorld) -> None:
    grown, received = await world.read_stream()
    assert received > STREAM_BYTES
    assert grown <= 4 * MIB


async def test_f57_readers_that_do_not_read_stay_within_bounds(world: BigWorld) -> None:
    readers = 200
    assert await world.read_nothing(readers) <= 64 * MIB
    assert world.upstream.sent < readers * STREAM_BYTES / 4
