"""The soak, for seconds: it does what it says. At full length it is `tox run -e soak`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from relay_gateway.delivery.segments import SEGMENT_BYTES
from relay_gateway.testing.memory import MIB
from relay_gateway.testing.soak import Endurance, Sample, running_soak

SECONDS = 6.0
WAYS = {"whole", "stream", "left", "ill", "unknown model", "unknown key"}


async def test_r14_mixed_traffic_is_all_recorded_and_leaves_nothing_behind(tmp_path: Path) -> None:
    async with running_soak(tmp_path, "openai", seed=1) as soak:
        endurance = await soak.run(SECONDS, 0.5)
    assert endurance.unexpected == {}
    assert endurance.recorded == endurance.asked.total()
    assert set(endurance.asked) == WAYS
    most = max(sample.descriptors for sample in endurance.samples)
    assert endurance.rest.descriptors <= most
    assert endurance.rest.tasks <= max(sample.tasks for sample in endurance.samples)
    assert endurance.rest.spool <= 2 * SEGMENT_BYTES
    assert endurance.growth(0.5) < 60 * MIB


def test_growth_is_that_of_the_line_through_the_samples_after_the_warm_up() -> None:
    flat_then_rising = [50, 50, 50, 50, 51, 53, 52, 54]
    samples = [
        Sample(float(second), second, mib * MIB, 9, 9, 0)
        for second, mib in enumerate(flat_then_rising)
    ]
    endurance = Endurance(Counter(), Counter(), 0, samples, samples[-1])
    assert endurance.growth(4 / 7) == pytest.approx(2.4 * MIB)
    assert endurance.growth(0.0) > 3 * MIB
