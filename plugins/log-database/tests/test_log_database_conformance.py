"""The sink and the logger keep the promises of their kinds, on both databases."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_gateway.testing.conformance import PayloadLoggerConformance, UsageReaderConformance
from relay_gateway.testing.conformance.payloads import MakeLogger
from relay_gateway.testing.conformance.usage import MakeSink
from relay_gateway.testing.context import plugin_context
from relay_gateway_log_database import (
    DatabasePayloads,
    DatabasePayloadsConfig,
    DatabaseSink,
    DatabaseSinkConfig,
)


class TestDatabaseSink(UsageReaderConformance):
    @pytest.fixture
    def make_sink(self, tables_url: str, tmp_path: Path) -> MakeSink:
        context = plugin_context(tmp_path, plugin="database", database_url=tables_url)
        return lambda: DatabaseSink(DatabaseSinkConfig(), context)


class TestDatabaseSinkBeyondWhatRowsAnswer(UsageReaderConformance):
    percentile_error = 2**0.5

    @pytest.fixture
    def make_sink(self, tables_url: str, tmp_path: Path) -> MakeSink:
        context = plugin_context(tmp_path, plugin="database", database_url=tables_url)

        def make() -> DatabaseSink:
            sink = DatabaseSink(DatabaseSinkConfig(), context)
            sink._answers.exact = 0
            return sink

        return make


class TestDatabasePayloads(PayloadLoggerConformance):
    @pytest.fixture
    def make_logger(self, database_url: str, tmp_path: Path) -> MakeLogger:
        context = plugin_context(tmp_path, plugin="database", database_url=database_url)
        return lambda: DatabasePayloads(DatabasePayloadsConfig(), context)
