"""Has everything that comes in one turn of the loop gathered, also what comes alone."""

from __future__ import annotations

import pytest

from relay_gateway.pipeline import turn


def gather_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """As under full load, for the rest of the test."""
    monkeypatch.setattr(turn, "FEW", 0)
    monkeypatch.setattr(turn, "BUSY_SECONDS", float("inf"))
