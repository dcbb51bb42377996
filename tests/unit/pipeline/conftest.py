"""The pipeline over a small catalog."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from relay_gateway.pipeline.explain import Explainer, Question
from relay_gateway.pipeline.explanation import Explanation
from relay_gateway.registry.plugins import ServedEndpoint
from relay_gateway.testing.catalog import PlainFormat
from relay_gateway.testing.world import PipelineWorld


@pytest.fixture
async def world(tmp_path: Path) -> PipelineWorld:
    return PipelineWorld(tmp_path)


@pytest.fixture
def explain(world: PipelineWorld) -> Any:
    async def ask(**more: Any) -> Explanation:
        snapshot = world.live.current
        found = snapshot.relay_keys[bytes.fromhex(world.relay_key.digest)]
        spoken = PlainFormat()
        served = ServedEndpoint(spoken.endpoints[0], spoken)
        given = {"model": "m", "served": served, "slug": "app", "key": found.key, **more}
        explainer = Explainer(world.pools, world.credentials, admission=world.admission)
        return await explainer.explain(snapshot, Question(**given))

    return ask
