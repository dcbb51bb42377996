"""The sink keeps the promises of every usage sink and reader, on both databases."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_gateway.testing.conformance import UsageReaderConformance
from relay_gateway.testing.conformance.usage import MakeSink
from relay_gateway.testing.context import plugin_context
from relay_gateway_log_database import DatabaseSink, DatabaseSinkConfig


class TestDatabaseSink(UsageReaderConformance):
    @pytest.fixture
    def make_sink(self, database_url: str, tmp_path: Path) -> MakeSink:
        context = plugin_context(tmp_path, plugin="database", database_url=database_url)
        return lambda: DatabaseSink(DatabaseSinkConfig(), context)
