"""A payload logger in memory that reads back, for tests of whoever writes to or asks one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from relay_gateway.plugin import PayloadLogger, PayloadRecord, PluginConfig, PluginContext


class MemoryPayloadLogger(PayloadLogger[PluginConfig]):
    """Keeps payloads in ``records``, by request id. While ``failure`` is set, it is raised."""

    name = "memory"
    reads: ClassVar[bool] = True

    def __init__(self, config: PluginConfig, context: PluginContext) -> None:
        super().__init__(config, context)
        self.records: dict[str, PayloadRecord] = {}
        self.failure: Exception | None = None

    async def write(self, records: Sequence[PayloadRecord]) -> None:
        if self.failure is not None:
            raise self.failure
        for record in records:
            self.records.setdefault(record.request_id, record)

    async def read(self, request_id: str) -> PayloadRecord | None:
        if self.failure is not None:
            raise self.failure
        return self.records.get(request_id)
