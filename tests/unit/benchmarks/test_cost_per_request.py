"""A gate on what noise cannot move: how many calls a request makes and what it leaves behind.

When a change makes a request dearer on purpose, or cheaper, record the new budget with
``python -m benchmarks.cost --record`` and say why in the commit.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
BUDGET: dict[str, dict[str, float]] = json.loads((ROOT / "benchmarks" / "budget.json").read_text())
# Another patch release or another version of a dependency may make a few calls more.
TOLERANCE = 1.03


@pytest.fixture(scope="module")
def cost() -> dict[str, float]:
    """Measured in a process of its own, where nothing of the tests is counted."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.cost"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("figure", ["calls_per_request", "calls_per_event"])
def test_a_request_makes_no_more_calls_than_its_budget_allows(
    cost: dict[str, float], figure: str
) -> None:
    assert VERSION in BUDGET, (
        f"no budget is recorded for Python {VERSION}: record one with "
        "`python -m benchmarks.cost --record`"
    )
    budget = BUDGET[VERSION][figure]
    assert 0 < cost[figure] <= budget * TOLERANCE, (
        f"{figure} is {cost[figure]:.1f}, the budget {budget:.1f}: make it cheaper, or record the "
        "new budget with `python -m benchmarks.cost --record`"
    )


def test_a_request_leaves_nothing_to_the_garbage_collector(cost: dict[str, float]) -> None:
    # A cycle around one request is dozens of blocks; a few belong to the loop's own bookkeeping.
    assert cost["left_behind_per_request"] < 5


def test_a_budget_is_recorded_for_the_oldest_supported_version() -> None:
    assert "3.11" in BUDGET
