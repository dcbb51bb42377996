"""One gateway before one speaking upstream, and one that never speaks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from relay_gateway.testing.polyglot import Polyglot
from relay_gateway.testing.upstream import ScriptedUpstream

from .spoken import HOSTS, PAIRS


@pytest.fixture(scope="session")
def shared_world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Polyglot]:
    # Nearly every request fails somewhere: the usual budget of retries would soon be used up.
    settings: dict[str, dict[str, float]] = {
        "inference": {"streamPingSeconds": 0},
        "routing": {"retryBudgetRatio": 1.0},
    }
    with Polyglot(tmp_path_factory.mktemp("translation"), HOSTS, settings) as world:
        yield world
        assert (world.upstream.errors, world.upstream.malformed) == ([], [])


@pytest.fixture(scope="session")
def shared_bad_upstream(shared_world: Polyglot) -> Iterator[ScriptedUpstream]:
    """What the first host of every model ``chat-then-gemini`` and the like leads to."""
    upstream = ScriptedUpstream()
    shared_world.run(upstream.start())
    for name, spoken in HOSTS.items():
        shared_world.host(f"bad-{name}", spoken, upstream.url)
    for first, second in PAIRS:
        shared_world.model(f"{first}-then-{second}", f"bad-{first}", second)
    shared_world.until_served("gemini-then-gemini")
    yield upstream
    shared_world.run(upstream.aclose())


@pytest.fixture
def world(shared_world: Polyglot) -> Polyglot:
    """The gateway, with nothing in the upstream's ledger."""
    shared_world.ledger.clear()
    return shared_world


@pytest.fixture
def mended(world: Polyglot) -> Iterator[Polyglot]:
    """The gateway; every host key, and its host, is put back to use afterwards."""
    yield world
    world.recover()


@pytest.fixture
def bad_upstream(shared_world: Polyglot, shared_bad_upstream: ScriptedUpstream) -> ScriptedUpstream:
    """The upstream that does what its ``answer`` says; what it did before is forgotten."""
    shared_world.recover()
    shared_bad_upstream.ledger.clear()
    return shared_bad_upstream
