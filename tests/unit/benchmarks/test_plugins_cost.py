"""Plugins that a request does not use cost it nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from benchmarks.plugins import cost_with

BUDGET = Path(__file__).parents[3] / "benchmarks" / "budget.json"
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
# As for the budget itself, and for what the loop does besides, by the clock.
TOLERANCE = 1.03


def test_a_request_keeps_to_its_budget_beside_twenty_plugins_that_it_does_not_use() -> None:
    budget = json.loads(BUDGET.read_text("utf-8"))[VERSION]["calls_per_request"]
    assert 0 < cost_with(20, timed=False).calls <= budget * TOLERANCE
