"""How the suite of state stores is run against this one."""

from __future__ import annotations

from pathlib import Path

import pytest

from relay_gateway.testing.clock import FakeClock
from relay_gateway.testing.conformance import StateStoreConformance
from relay_gateway.testing.conformance.stores import MakeStore
from relay_gateway.testing.context import plugin_context
from relay_gateway_state_meridian.store import MeridianConfig, MeridianStore

__all__ = ["TestMeridianStore"]


class TestMeridianStore(StateStoreConformance):
    """With a clock that is turned, so that the arithmetic is compared to the second."""

    @pytest.fixture
    def clock(self) -> FakeClock:
        """What the store takes its time from."""
        return FakeClock()

    @pytest.fixture
    def make_store(self, tmp_path: Path, clock: FakeClock) -> MakeStore:
        """Makes a store, each with counters of its own."""
        context = plugin_context(tmp_path, plugin="meridian", clock=clock)
        return lambda: MeridianStore(MeridianConfig(), context)
