"""Callers that leave at any moment: nobody gets another's answer, and nothing stays behind."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from relay_gateway.testing.data_path import DataPath
from relay_gateway.testing.nonces import NonceUpstream, desert

REQUESTS = 3_000


async def test_r16_r29_random_cancellation_mixes_nothing_up_and_leaks_nothing(
    tmp_path: Path,
) -> None:
    async with (
        NonceUpstream(seed=29) as upstream,
        DataPath(tmp_path, {"m": upstream.url + "/v1"}) as path,
    ):
        callers = await desert(path, seed=29, requests=REQUESTS)
    outcomes = Counter(record.outcome for record in path.records)
    assert callers.refused == 0
    assert min(callers.answered, callers.left, outcomes["cancelled"]) > REQUESTS / 20
    assert outcomes["ok"] >= callers.answered
    assert max(upstream.seen.values()) <= 2
