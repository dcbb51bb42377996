"""The pipeline over a small catalog."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_gateway.testing.world import PipelineWorld


@pytest.fixture
async def world(tmp_path: Path) -> PipelineWorld:
    return PipelineWorld(tmp_path)
