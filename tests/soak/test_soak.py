"""The soak at full length: SOAK_MINUTES says for how long, 360 unless told."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path

import pytest

from relay_gateway.delivery.segments import SEGMENT_BYTES
from relay_gateway.testing.memory import MIB
from relay_gateway.testing.soak import running_soak

MINUTES = float(os.environ.get("SOAK_MINUTES", "360"))
SAMPLES = 120
THIRD = SAMPLES // 3
"""So many samples warm up."""
MOST_GROWTH = 10 * MIB
"""From the warm-up to the end, however long that is."""
LEEWAY = 16
"""How many more descriptors or tasks there may be by chance."""

_log = logging.getLogger(__name__)


async def test_r14_r31_under_mixed_traffic_nothing_grows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "httpx")  # which tells of each request
    seed = time.time_ns() % 2**32
    _log.info("%s minutes, seed %d", MINUTES, seed)
    async with running_soak(tmp_path, "openai", seed) as soak:
        endurance = await soak.run(MINUTES * 60, MINUTES * 60 / SAMPLES)
    for sample in (*endurance.samples, endurance.rest):
        _log.info("%s", sample)
    growth = endurance.growth(1 / 3)
    _log.info("asked %s, memory grows by %.2f MiB", dict(endurance.asked), growth / MIB)
    assert endurance.unexpected == {}
    assert endurance.recorded == endurance.asked.total()
    before, after = endurance.samples[THIRD:-THIRD], endurance.samples[-THIRD:]
    for held in ("descriptors", "tasks"):
        most = max(getattr(sample, held) for sample in before)
        assert max(getattr(sample, held) for sample in after) <= most + LEEWAY
        assert getattr(endurance.rest, held) <= most
    assert max(sample.spool for sample in after) <= 2 * SEGMENT_BYTES
    assert growth <= MOST_GROWTH
