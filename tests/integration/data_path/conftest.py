"""Every test of the data path runs on the event loop of production."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest
import uvloop

from relay_gateway.testing.gathering import gather_everything


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(params=["alone", "together"])
def alone_and_together(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is to be the same for a request that comes alone and for those of a turn."""
    if request.param == "together":
        gather_everything(monkeypatch)
