"""Writes down what became of each test, for ``relay-gateway plugins check``: a pytest plugin.

The variable ``RELAY_CHECK_REPORT`` names the file, one JSON object per test and line.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

VARIABLE = "RELAY_CHECK_REPORT"
LONGEST_REASON = 400


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """One line for a test that ran, and for one whose fixtures failed or that was left out."""
    if report.when == "call" or not report.passed:
        _write(report.nodeid, report.outcome, _reason(report.longrepr))


def pytest_collectreport(report: pytest.CollectReport) -> None:
    """One line for what could not even be imported."""
    if report.failed:
        _write(report.nodeid, "failed", _reason(report.longrepr))


def _write(node: str, outcome: str, reason: str) -> None:
    line = json.dumps({"test": node, "outcome": outcome, "reason": reason})
    with Path(os.environ[VARIABLE]).open("a", encoding="utf-8") as file:
        file.write(line + "\n")


def _reason(found: object) -> str:
    """The words of the assertion without the source around them."""
    crash = getattr(found, "reprcrash", None)
    text = str(getattr(crash, "message", None) or found or "")
    return " ".join(text.split())[:LONGEST_REASON]
