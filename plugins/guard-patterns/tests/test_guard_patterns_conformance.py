"""The suites of guards, against rules that deny and rules that mask."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from relay_gateway.testing.conformance import StreamGuardConformance
from relay_gateway.testing.conformance.guards import MakeGuard
from relay_gateway.testing.context import plugin_context
from relay_gateway_guard_patterns import PatternGuard, PatternsConfig, Rule

CARD = "4111 1111 1111 1111"
PATTERN = r"\b\d{4}( \d{4}){3}\b"


def made(directory: Path, action: Literal["deny", "mask"]) -> MakeGuard:
    config = PatternsConfig(rules=(Rule(name="card", pattern=PATTERN, action=action),))
    return lambda: PatternGuard(config, plugin_context(directory))


class TestDenying(StreamGuardConformance):
    @pytest.fixture
    def make_guard(self, tmp_path: Path) -> MakeGuard:
        return made(tmp_path, "deny")

    @pytest.fixture
    def objectionable(self) -> str:
        return CARD


class TestMasking(StreamGuardConformance):
    @pytest.fixture
    def make_guard(self, tmp_path: Path) -> MakeGuard:
        return made(tmp_path, "mask")

    @pytest.fixture
    def objectionable(self) -> str:
        return CARD
