"""The suite for sinks with a credential passes a discreet one and names where others show it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic import SecretStr

from relay_gateway.plugin import PluginConfig, UsageRecord, UsageSink
from relay_gateway.testing.conformance import SinkCredentialConformance
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.memory_sink import MemoryUsageSink

TOKEN = "canary-5f1c9e7d2b"


class VaultConfig(PluginConfig):
    token: SecretStr = SecretStr(TOKEN)


class PlainConfig(PluginConfig):
    token: str = TOKEN


class Vault(MemoryUsageSink):
    def __init__(self, directory: Path, config: PluginConfig | None = None) -> None:
        super().__init__(config or VaultConfig(), plugin_context(directory))


class TestVault(SinkCredentialConformance):
    @pytest.fixture
    def credential(self) -> str:
        return TOKEN

    @pytest.fixture
    def sink(self, tmp_path: Path) -> UsageSink:
        return Vault(tmp_path)

    @pytest.fixture
    def unreachable(self, tmp_path: Path) -> UsageSink:
        sink = Vault(tmp_path)
        sink.failure = ConnectionError("the vault does not answer")
        return sink


class Chatty(Vault):
    async def write(self, records: Sequence[UsageRecord]) -> None:
        self.context.logger.debug("writing with %s", TOKEN)
        await super().write(records)


SUITE = SinkCredentialConformance()


async def test_a_sink_that_logs_its_credential_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(AssertionError, match="can be read in: log"):
        await SUITE.test_the_credential_is_never_shown(Chatty(tmp_path), TOKEN, caplog)


async def test_a_sink_that_keeps_its_credential_as_plain_text_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = Vault(tmp_path, PlainConfig())
    with pytest.raises(AssertionError, match="can be read in: sink"):
        await SUITE.test_the_credential_is_never_shown(sink, TOKEN, caplog)


async def test_a_sink_whose_errors_quote_the_credential_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sink = Vault(tmp_path)
    sink.failure = ConnectionError("refused", {"token": TOKEN})
    with pytest.raises(AssertionError, match="can be read in: error"):
        await SUITE.test_an_error_does_not_show_the_credential(sink, TOKEN, caplog)


async def test_a_sink_that_writes_to_nowhere_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(AssertionError, match="records would be lost"):
        await SUITE.test_an_error_does_not_show_the_credential(Vault(tmp_path), TOKEN, caplog)
