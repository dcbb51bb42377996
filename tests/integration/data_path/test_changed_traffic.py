"""Changed requests and changed upstream answers, each followed by a sound request."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_gateway.testing.changed_traffic import changed_traffic
from relay_gateway.testing.memory import MIB

CASES = 200
SPARE_DESCRIPTORS = 8
"""Connections to the upstream that wait to be used again, and those of the database."""


async def test_r21_after_changed_requests_the_next_one_is_answered_soundly(tmp_path: Path) -> None:
    async with changed_traffic(tmp_path, adapter="openai", seed=21) as traffic:
        before = traffic.held()
        for _ in range(CASES):
            await traffic.send_changed_request()
        await traffic.until_held(before.descriptors + SPARE_DESCRIPTORS)
        assert traffic.held().resident - before.resident < 24 * MIB
        assert traffic.statuses[200] > CASES / 4
        assert traffic.statuses[400] > CASES / 10
        assert traffic.resets == 0


async def test_r21_after_changed_answers_the_next_one_is_told_truly(tmp_path: Path) -> None:
    async with changed_traffic(tmp_path, adapter="openai", seed=22) as traffic:
        before = traffic.held()
        for _ in range(CASES):
            await traffic.receive_changed_answer()
        await traffic.until_held(before.descriptors + SPARE_DESCRIPTORS)
        assert traffic.held().resident - before.resident < 24 * MIB
        assert traffic.statuses[200] > CASES / 4
        assert traffic.statuses[502] > 0


async def test_r21_answers_that_were_mixed_up_would_be_found_out(tmp_path: Path) -> None:
    async with changed_traffic(tmp_path, adapter="openai", seed=23) as traffic:
        await traffic.receive_changed_answer()
        upstream = traffic._scenario.upstream
        answer, earlier = traffic._answer, upstream.ledger[-1]
        upstream.answer = lambda _: answer(earlier)
        with pytest.raises(AssertionError, match="somebody else's answer"):
            await traffic.ask_soundly()
        with pytest.raises(AssertionError, match="somebody else's answer"):
            await traffic.send_changed_request()
