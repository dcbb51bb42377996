"""Our server behind other people's servers, which write down what they passed on."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from relay_gateway.http.limits import ServerLimits
from relay_gateway.testing.behind import Behind, EchoBehind
from relay_gateway.testing.fronts import BufferingHaproxy, Haproxy, Nginx
from relay_gateway.testing.inference_server import InferenceServer


@pytest.fixture(scope="module", params=[Nginx, Haproxy, BufferingHaproxy], ids=lambda f: f.name)
def behind(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Behind]:
    """One front after the other, with our server behind it."""
    echo = EchoBehind()
    limits = ServerLimits(body_grace_seconds=3.0, sweep_seconds=0.1)
    received: list[bytearray] = []
    with (
        InferenceServer(echo, limits, record=received) as server,
        request.param(server.port, tmp_path_factory.mktemp("front")) as front,
    ):
        yield Behind(front, echo.handled, received)
