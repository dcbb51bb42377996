"""One gateway for all tests, whose guards do as each test says."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from relay_gateway.plugin import GuardConfig
from relay_gateway.testing.guarded import GuardedGateway, guarded

from .watchers import HOSTS, Hooks

NAMES = (
    "watch", "loud", "strict", "broken", "open", "closed", "first", "second", "scoped", "whole",
)  # fmt: skip
JUDGED = (
    "on_request",
    "on_response",
    "on_event",
    "reads_responses",
    "reads_streams",
    "seen",
    "whoever",
)
Stage = Callable[..., AbstractAsyncContextManager[GuardedGateway]]


@pytest_asyncio.fixture(scope="package", loop_scope="package")
async def shared(
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[tuple[GuardedGateway, Hooks]]:
    hooks = Hooks(*NAMES)
    place = tmp_path_factory.mktemp("guarded")
    async with guarded(place, HOSTS, hooks, order=NAMES) as world:
        yield world, hooks


@pytest.fixture
def stage(shared: tuple[GuardedGateway, Hooks]) -> Stage:
    """Puts the guards of ``hooks`` that are in ``order`` on duty, with these sections."""
    world, registered = shared

    @asynccontextmanager
    async def put(
        hooks: Hooks,
        order: Sequence[str] = (),
        guards: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> AsyncIterator[GuardedGateway]:
        for name, wanted in hooks.guards.items():
            for attribute in JUDGED:
                value = vars(wanted).get(attribute, getattr(wanted, attribute))
                setattr(registered.guards[name], attribute, value)
            section = (guards or {}).get(name, {})
            world.gateway.plugins.guard(name).config = GuardConfig.model_validate(section)
        world.upstream.ledger.clear()
        world.gateway.guards.begin(order)
        yield world

    return put
