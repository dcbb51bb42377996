"""How the suite of usage sinks is run against this one."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from relay_gateway.plugin import UsageRecord, UsageSink
from relay_gateway.testing.conformance import UsageSinkConformance
from relay_gateway.testing.conformance.usage import MakeSink
from relay_gateway.testing.context import plugin_context
from relay_gateway_log_meridian.sink import MeridianConfig, MeridianSink

__all__ = ["TestMeridianSink"]


class TestMeridianSink(UsageSinkConformance):
    """Over a file of its own for each test."""

    @pytest.fixture
    def make_sink(self, tmp_path: Path) -> MakeSink:
        """Makes a sink over the same file each time."""
        return lambda: MeridianSink(MeridianConfig(), plugin_context(tmp_path, plugin="meridian"))

    async def stored(self, sink: UsageSink) -> Sequence[UsageRecord]:
        """Everything in the file, because this sink cannot be read through the gateway."""
        path = sink.context.data_dir / "meridian" / sink.config.file
        with closing(sqlite3.connect(path)) as connection:
            rows = connection.execute("SELECT record FROM records").fetchall()
        return [msgspec.json.decode(row[0], type=UsageRecord) for row in rows]
