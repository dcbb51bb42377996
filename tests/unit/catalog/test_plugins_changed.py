"""A catalog built again because other plugins are installed, without any row having changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from relay_gateway.catalog.build import SnapshotBuilder, build_snapshot
from relay_gateway.catalog.snapshot import Snapshot
from relay_gateway.testing.world import PipelineWorld


class World:
    """The rows of a catalog whose plugins come and go."""

    def __init__(self, directory: Path) -> None:
        world = PipelineWorld(directory)
        self.providers: dict[str, Any] = {"plain": world.provider}
        self.backends: dict[str, Any] = {"table": world.backend}
        self.rows = list(world.draft.rows)
        self.builder = SnapshotBuilder(self.providers, self.backends)
        self.builder.load(1, self.rows, {})

    def rebuilt(self) -> Snapshot:
        self.builder.plugins_changed()
        return self.builder.load(1, self.rows, {})

    def from_nothing(self) -> Snapshot:
        return build_snapshot(1, self.rows, providers=self.providers, backends=self.backends)


@pytest.fixture
async def world(tmp_path: Path) -> World:
    return World(tmp_path)


async def test_hosts_of_a_provider_that_is_gone_are_left_out_and_come_back_with_it(
    world: World,
) -> None:
    provider = world.providers.pop("plain")
    gone = world.rebuilt()
    assert gone.hosts == {}
    assert any("'plain' is not installed" in bad.reason for bad in gone.quarantined)
    assert gone.models_by_id == world.from_nothing().models_by_id
    world.providers["plain"] = provider
    back = world.rebuilt()
    anew = world.from_nothing()
    for name in back.__struct_fields__:
        assert getattr(back, name) == getattr(anew, name), name
    assert back.hosts


async def test_host_keys_of_a_backend_that_is_gone_are_left_out(world: World) -> None:
    assert world.from_nothing().host_keys
    world.backends.clear()
    assert world.rebuilt().host_keys == {}


async def test_a_build_that_knew_of_the_change_is_not_repeated(world: World) -> None:
    before = world.rebuilt()
    after = world.builder.load(1, world.rows, {})
    assert all(after.hosts[each] is host for each, host in before.hosts.items())


async def test_a_build_that_began_before_the_change_does_not_count(world: World) -> None:
    early = world.builder.intake()
    early.add(world.rows)
    world.builder.plugins_changed()
    world.providers.clear()
    world.builder.apply(1, early, {}, None)
    assert world.builder.load(1, world.rows, {}).hosts == {}
