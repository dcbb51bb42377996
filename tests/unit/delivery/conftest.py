"""A world of spools for each test."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from relay_gateway.testing.spools import SpoolWorld


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[SpoolWorld]:
    world = SpoolWorld(tmp_path, "one", "two")
    yield world
    await world.aclose()
