"""The control plane held to its own OpenAPI document, on both databases at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from relay_gateway.testing.contract import excused, judge_apart

CALLS = 20_000
SEED = 1
KINDS_OF_ANSWERS = {"200", "201", "400", "401", "403", "404", "405", "415", "422"}


async def test_t54_every_answer_to_20_000_made_up_requests_follows_the_document(
    tmp_path: Path, postgres_url: str
) -> None:
    verdicts = await asyncio.gather(
        judge_apart(f"sqlite:///{tmp_path}/c.sqlite3", ("coverage", "fuzzing"), 25, SEED),
        judge_apart(postgres_url, ("coverage", "stateful"), 12, SEED),
    )
    for verdict in verdicts:
        assert verdict.failures == {}, "\n\n".join(verdict.failures.values())
        assert verdict.untried == []
        # Requests were both good and bad.
        assert set(verdict.statuses) >= KINDS_OF_ANSWERS
    assert sum(verdict.calls for verdict in verdicts) >= CALLS


@pytest.mark.parametrize(
    ("status", "error", "expected"),
    [
        (422, {"code": "invalid_entity", "fields": [{"code": "reference_not_found"}]}, True),
        (422, {"code": "invalid_entity", "fields": [{"code": "int_type"}]}, False),
        (
            422,
            {"code": "x", "fields": [{"code": "reference_not_found"}, {"code": "required"}]},
            False,
        ),
        (422, {"code": "invalid_entity", "fields": []}, False),
        (400, {"code": "invalid_parameter", "message": "cursor: is not one"}, True),
        (400, {"code": "invalid_parameter", "message": "limit: too large"}, False),
        (400, {"code": "unknown_parameter", "message": "cursor: "}, False),
    ],
)
def test_only_what_no_schema_can_say_excuses_a_refusal(
    status: int, error: dict[str, object], expected: bool
) -> None:
    assert excused(status, error) is expected
