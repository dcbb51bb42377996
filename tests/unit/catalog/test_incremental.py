"""A change gives the snapshot that a build from nothing would give, and shares what is the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from relay_gateway.catalog.build import SnapshotBuilder, build_snapshot
from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.ids import new_id
from relay_gateway.testing.world import PipelineWorld

Change = Callable[[random.Random, dict[str, EntityRow]], None]


class World:
    """Rows by id, a builder that follows them, and a build from nothing to compare with."""

    def __init__(self, directory: Path) -> None:
        world = PipelineWorld(directory)
        self.providers: Any = {"plain": world.provider}
        self.backends: Any = {"table": world.backend}
        self.draft = world.draft
        self.rows = {row.id: row for row in world.draft.rows}
        self.builder = SnapshotBuilder(self.providers, self.backends)
        self.snapshot = self.builder.load(1, self.rows.values(), {})
        self.revision = 1

    def change(self, *rows: EntityRow, deleted: tuple[str, ...] = ()) -> None:
        self.revision += 1
        self.rows.update({row.id: row for row in rows})
        for entity_id in deleted:
            self.rows.pop(entity_id, None)
        self.snapshot = self.builder.change(self.revision, rows, deleted, {})

    def edit(self, entity_id: str, **spec: Any) -> EntityRow:
        row = self.rows[entity_id]
        return msgspec.structs.replace(row, spec={**row.spec, **spec}, version=row.version + 1)

    def of(self, kind: str) -> list[EntityRow]:
        return [row for row in self.rows.values() if row.kind == kind]

    def check(self) -> None:
        rows = [self.rows[entity_id] for entity_id in sorted(self.rows)]
        anew = build_snapshot(self.revision, rows, providers=self.providers, backends=self.backends)
        found = sorted(self.snapshot.quarantined, key=lambda bad: bad.id)
        assert found == sorted(anew.quarantined, key=lambda bad: bad.id)
        for name in self.snapshot.__struct_fields__:
            if name != "quarantined":
                assert getattr(self.snapshot, name) == getattr(anew, name), name


@pytest.fixture
async def world(tmp_path: Path) -> World:
    return World(tmp_path)


SPECS: dict[str, list[dict[str, Any]]] = {
    "provider": [{"enabled": False}, {"enabled": True}, {"homepageUrl": 7}, {"homepageUrl": None}],
    "host": [{"enabled": False}, {"enabled": True}, {"adapter": "gone"}, {"adapter": "plain"},
             {"baseUrl": "http://else.test"}, {"pathPrefix": "p"}],
    "model": [{"enabled": False}, {"enabled": True}, {"aliases": ["x*"]}, {"aliases": []},
              {"bindings": []}, {"aliases": 3}],
    "policy": [{"enabled": False}, {"enabled": True}, {"models": []}, {"models": ["*"]},
               {"deny": ["@west"]}, {"models": 7}],
    "host key": [{"enabled": False}, {"enabled": True}, {"weight": 3}, {"weight": -1}],
    "relay key": [{"revokedAt": "2026-01-01T00:00:00Z"}, {"revokedAt": None}, {"tags": 7},
                  {"tags": {"a": "b"}}],
}  # fmt: skip


@pytest.mark.parametrize("seed", range(20))
async def test_any_row_of_changes_gives_what_a_build_from_nothing_gives(
    world: World, seed: int
) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        step = chance.random()
        row = chance.choice(list(world.rows.values()))
        if step < 0.1 and len(world.rows) > 4:
            world.change(deleted=(row.id, "unknown"))
        elif step < 0.2:
            copy = msgspec.structs.replace(row, id=new_id(), slug=f"{row.slug}-{step}")
            world.change(msgspec.structs.replace(copy, sealed={**row.sealed, "digest": "00" * 32}))
            world.change(deleted=(copy.id,))
        else:
            spec = chance.choice(SPECS[row.kind])
            world.change(world.edit(row.id, **spec))
        world.check()


async def test_a_revoked_key_is_gone_and_every_other_object_stays_the_same(world: World) -> None:
    other = world.draft.relay_key("other", world.draft.rows[3].id)
    world.change(world.draft.rows[-1])
    before = world.snapshot
    (revoked, kept) = world.of("relay key")
    world.change(world.edit(revoked.id, revokedAt="2026-01-01T00:00:00Z"))
    after = world.snapshot
    assert list(after.relay_keys) == [bytes.fromhex(other.digest)]
    assert after.relay_keys[bytes.fromhex(kept.sealed["digest"])].key.id == kept.id
    assert len(before.relay_keys) == 2
    assert after.hosts is before.hosts
    assert after.models is before.models
    assert after.policies is before.policies
    assert after.host_keys is before.host_keys
    assert after.keys_by_host is before.keys_by_host


async def test_a_rename_keeps_the_host_that_connections_hang_on(world: World) -> None:
    before = world.snapshot
    row = world.of("host")[0]
    world.change(msgspec.structs.replace(row, display_name="Another name", version=2))
    assert world.snapshot.hosts[row.id] is before.hosts[row.id]
    assert all(world.snapshot.host_keys[key] is before.host_keys[key] for key in before.host_keys)


async def test_a_changed_host_takes_its_models_and_keys_along(world: World) -> None:
    before = world.snapshot
    east, west = world.of("host")
    world.change(world.edit(east.id, baseUrl="http://moved.test"))
    (model,) = world.snapshot.models_by_id.values()
    assert model.bindings[0].host is world.snapshot.hosts[east.id]
    assert model.bindings[0].host.view.base_url == "http://moved.test"
    assert world.snapshot.hosts[west.id] is before.hosts[west.id]


async def test_loading_the_same_rows_again_shares_every_object(world: World) -> None:
    before = world.snapshot
    after = world.builder.load(2, list(world.rows.values()), {})
    assert after.revision == 2
    assert after.models is before.models
    assert after.relay_keys is before.relay_keys


async def test_a_failed_build_leaves_the_builder_as_it_was(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    (key,) = world.of("relay key")
    change = world.edit(key.id, revokedAt="2026-01-01T00:00:00Z")

    def broken(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("relay_gateway.catalog.build._Step._relay_keys", broken)
        with pytest.raises(MemoryError):
            world.builder.change(2, [change], (), {})
    assert world.builder.revision == 1
    world.change(change)
    assert world.snapshot.relay_keys == {}
    world.check()


async def test_settings_follow_and_are_shared_as_long_as_they_are_the_same(world: World) -> None:
    first = world.builder.change(2, (), (), {"routing": {"maxAttempts": 5}})
    assert first.settings.routing.max_attempts == 5
    second = world.builder.change(3, (), (), {"routing": {"maxAttempts": 5}})
    assert second.settings is first.settings
    assert second.models is first.models
