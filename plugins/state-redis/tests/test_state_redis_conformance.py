"""The promises of a state store, kept by each kind of server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.conformance.stores import MakeStore, StateStoreConformance
from relay_gateway_state_redis.testing.groups import RedisCluster
from relay_gateway_state_redis.testing.server import Protection, RedisServer, server_programs

PASSWORD = "canary-of-the-redis-tests"


class TestTurnedClock(StateStoreConformance):
    @pytest.fixture
    def clock(self, turned_clock: FakeClock) -> FakeClock:
        return turned_clock

    @pytest.fixture
    def make_store(self, make: Any, server: RedisServer, clock: FakeClock) -> MakeStore:
        return lambda: make(server.url)


@pytest.fixture(scope="module", params=server_programs())
def program(request: Any) -> Iterator[RedisServer]:
    with RedisServer(program=request.param) as server:
        yield server


class TestRealClock(StateStoreConformance):
    @pytest.fixture
    def make_store(self, make: Any, program: RedisServer) -> MakeStore:
        program.command("FLUSHALL")
        return lambda: make(program.url)


@pytest.fixture(scope="module")
def secured(certificate: Path) -> Iterator[RedisServer]:
    with RedisServer(Protection(PASSWORD, certificate)) as server:
        yield server


class TestEncryptedWithPassword(StateStoreConformance):
    @pytest.fixture
    def make_store(self, make: Any, secured: RedisServer, certificate: Path) -> MakeStore:
        secured.command("FLUSHALL")
        return lambda: make(secured.url, password=PASSWORD, ca_file=certificate)


class TestCluster(StateStoreConformance):
    @pytest.fixture
    def make_store(self, make: Any, cluster: RedisCluster) -> MakeStore:
        for server in cluster.masters:
            server.command("FLUSHALL")
        return lambda: make(cluster.url)
