"""Sink and logger keep the promises of all of them, against moto with signatures on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import pytest

from relay_gateway.plugin import UsageRecord, UsageSink
from relay_gateway.testing.conformance import (
    PayloadLoggerConformance,
    SinkCredentialConformance,
    UsageSinkConformance,
)
from relay_gateway.testing.conformance.payloads import MakeLogger
from relay_gateway.testing.conformance.usage import MakeSink

Objects = Callable[[], Awaitable[dict[str, bytes]]]


class TestS3Usage(UsageSinkConformance):
    @pytest.fixture(autouse=True)
    def look_into(self, objects: Objects) -> None:
        self._objects = objects

    @pytest.fixture
    def make_sink(self, make_usage: Any) -> MakeSink:
        made: MakeSink = make_usage
        return made

    async def stored(self, sink: UsageSink) -> Sequence[UsageRecord]:
        found = await self._objects()
        return [
            msgspec.json.decode(line, type=UsageRecord)
            for lines in found.values()
            for line in lines.splitlines()
        ]


class TestCredentials(SinkCredentialConformance):
    @pytest.fixture
    def credential(self, store: Any) -> str:
        credential: str = store.keys["writer"]["secretAccessKey"]
        return credential

    @pytest.fixture
    def sink(self, make_usage: Any) -> UsageSink:
        sink: UsageSink = make_usage()
        return sink

    @pytest.fixture
    def unreachable(self, make_usage: Any) -> UsageSink:
        sink: UsageSink = make_usage(bucket="not-there")
        return sink


class TestS3Payloads(PayloadLoggerConformance):
    @pytest.fixture
    def make_logger(self, make_payloads: Any) -> MakeLogger:
        made: MakeLogger = make_payloads
        return made
