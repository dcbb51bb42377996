"""Sink and logger keep the promises of all of them, whatever becomes of their files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import ByteSize

from relay_gateway.plugin import PluginContext, UsageRecord
from relay_gateway.testing.conformance import PayloadLoggerConformance, UsageReaderConformance
from relay_gateway.testing.conformance.payloads import MakeLogger
from relay_gateway.testing.conformance.usage import MakeSink
from relay_gateway_log_file import FilePayloads, FilePayloadsConfig, FileSink, FileSinkConfig


class ScatteredSink(FileSink):
    """Writes few records at a time, so that they come to lie in many files."""

    async def write(self, records: Sequence[UsageRecord]) -> None:
        for start in range(0, len(records), 16):
            await super().write(records[start : start + 16])
        if self._upkeep is not None and self._upkeep._tidying is not None:
            await self._upkeep._tidying


class TestFileSink(UsageReaderConformance):
    @pytest.fixture
    def make_sink(self, context: PluginContext) -> MakeSink:
        return lambda: FileSink(FileSinkConfig(), context)


class TestManyFiles(UsageReaderConformance):
    """Every test over a dozen files or more, all but the newest one compressed."""

    @pytest.fixture
    def make_sink(self, context: PluginContext) -> MakeSink:
        return lambda: ScatteredSink(
            FileSinkConfig(max_bytes=ByteSize(4096), sync="never"), context
        )

    async def test_the_files_are_many_and_compressed(
        self, filled: tuple[ScatteredSink, list[UsageRecord]], tmp_path: Path
    ) -> None:
        names = [path.name for path in (tmp_path / "usage").glob("usage*")]
        assert len(names) >= 4
        assert sorted(name.endswith(".jsonl.gz") for name in names) == [False] + [True] * (
            len(names) - 1
        )


class TestTwoWriters(UsageReaderConformance):
    """Batches go to one of two sinks on the same files in turn, reads to the other one."""

    @pytest.fixture
    def make_sink(self, context: PluginContext) -> MakeSink:
        return lambda: PairedSink(FileSinkConfig(max_bytes=ByteSize(4096)), context)


class PairedSink(FileSink):
    """Hands every other batch to a second sink on the same files."""

    def __init__(self, config: FileSinkConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self._other = FileSink(config, context)
        self._batches = 0

    async def aopen(self) -> None:
        await super().aopen()
        await self._other.aopen()

    async def aclose(self) -> None:
        await super().aclose()
        await self._other.aclose()

    async def write(self, records: Sequence[UsageRecord]) -> None:
        self._batches += 1
        await (self._other.write(records) if self._batches % 2 else super().write(records))


class TestFilePayloads(PayloadLoggerConformance):
    @pytest.fixture
    def make_logger(self, context: PluginContext) -> MakeLogger:
        return lambda: FilePayloads(FilePayloadsConfig(), context)
