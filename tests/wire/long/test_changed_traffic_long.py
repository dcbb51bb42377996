"""Changed requests and changed upstream answers through a gateway process, at full length."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from relay_gateway.testing.changed_traffic import ChangedTraffic, changed_traffic
from relay_gateway.testing.memory import MIB

CASES = 60_000
WARM_UP = 6_000
TIDIED_EVERY = 1000
SPARE_DESCRIPTORS = 8

_log = logging.getLogger(__name__)


async def run(traffic: ChangedTraffic, count: int, case: Callable[[], Awaitable[None]]) -> None:
    for number in range(count):
        await case()
        if number % TIDIED_EVERY == 0:
            traffic.forget()


@pytest.mark.parametrize("changed", ["request", "answer"])
async def test_r21_sixty_thousand_changes_confuse_nobody(tmp_path: Path, changed: str) -> None:
    seed = time.time_ns() % 2**32
    _log.info("seed %d", seed)
    async with changed_traffic(tmp_path, adapter="openai", seed=seed) as traffic:
        cases = {
            "request": traffic.send_changed_request,
            "answer": traffic.receive_changed_answer,
        }
        await run(traffic, WARM_UP, cases[changed])
        before = traffic.held()
        await run(traffic, CASES, cases[changed])
        await traffic.until_held(before.descriptors + SPARE_DESCRIPTORS)
        grown = traffic.held().resident - before.resident
        _log.info(
            "answers: %s; %d resets; %.1f MiB more",
            dict(traffic.statuses), traffic.resets, grown / MIB,
        )  # fmt: skip
        # 36 000 sound requests alone took 30 MiB, less and less for each.
        assert grown < 48 * MIB
