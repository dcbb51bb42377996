"""How the suite of payload loggers is run against this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_gateway.testing.conformance import PayloadLoggerConformance
from relay_gateway.testing.conformance.payloads import MakeLogger
from relay_gateway.testing.context import plugin_context
from relay_gateway_payloads_meridian.payloads import MeridianConfig, MeridianPayloads

__all__ = ["TestMeridianPayloads"]


class TestMeridianPayloads(PayloadLoggerConformance):
    """Over a file of its own for each test."""

    @pytest.fixture
    def make_logger(self, tmp_path: Path) -> MakeLogger:
        """Makes a logger over the same file each time."""
        return lambda: MeridianPayloads(MeridianConfig(), plugin_context(tmp_path, plugin="meridian"))
