"""The password of a PostgreSQL address is never shown, whether the server answers or not."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from relay_gateway.plugin import UsageSink
from relay_gateway.testing.conformance import SinkCredentialConformance
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.postgres import PostgresServer
from relay_gateway_log_database import DatabaseSink, DatabaseSinkConfig

PASSWORD = "canary-5f1c9e7d2b"


def sink_at(url: str, directory: Path) -> DatabaseSink:
    context = plugin_context(directory, plugin="database")
    return DatabaseSink(DatabaseSinkConfig(url=SecretStr(url)), context)


class TestPassword(SinkCredentialConformance):
    @pytest.fixture
    def credential(self) -> str:
        return PASSWORD

    @pytest.fixture
    def sink(self, postgres: PostgresServer, tmp_path: Path) -> UsageSink:
        url = postgres.create_database()
        assert "@" in url
        return sink_at(url.replace("@", f":{PASSWORD}@", 1), tmp_path)

    @pytest.fixture
    def unreachable(self, unused_tcp_port: int, tmp_path: Path) -> UsageSink:
        return sink_at(f"postgresql://u:{PASSWORD}@127.0.0.1:{unused_tcp_port}/d", tmp_path)


class TestPasswordInTheGatewaysOwnAddress(TestPassword):
    @pytest.fixture
    def sink(self, postgres: PostgresServer, tmp_path: Path) -> UsageSink:
        url = postgres.create_database().replace("@", f":{PASSWORD}@", 1)
        context = plugin_context(tmp_path, plugin="database", database_url=url)
        return DatabaseSink(DatabaseSinkConfig(), context)


class TestPasswordOfAnUnknownDatabase(TestPassword):
    @pytest.fixture
    def unreachable(self, postgres: PostgresServer, tmp_path: Path) -> UsageSink:
        url = postgres.url_of("absent").replace("@", f":{PASSWORD}@", 1)
        return sink_at(url, tmp_path)
