"""The real server with a handler whose part each test chooses; and one with little patience."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from relay_gateway.http.limits import ServerLimits
from relay_gateway.testing.inference_server import InferenceServer
from relay_gateway.testing.wire import WireCaller

from .stage import Stage

IMPATIENT = ServerLimits(
    header_seconds=0.3,
    idle_seconds=0.6,
    body_grace_seconds=0.3,
    write_stall_seconds=0.4,
    linger_seconds=0.3,
    sweep_seconds=0.05,
)


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def server(stage: Stage) -> Iterator[InferenceServer]:
    with InferenceServer(stage) as server:
        yield server
        stage.cue.set()


@pytest.fixture
def caller(server: InferenceServer) -> Iterator[WireCaller]:
    with WireCaller(server.port) as caller:
        yield caller


@pytest.fixture
def impatient(stage: Stage) -> Iterator[InferenceServer]:
    with InferenceServer(stage, IMPATIENT) as server:
        yield server
        stage.cue.set()
