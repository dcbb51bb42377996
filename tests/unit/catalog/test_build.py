"""A bad row is left out with its reason; everything else serves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from relay_gateway.testing.world import PipelineWorld


@pytest.fixture
async def world(tmp_path: Path) -> PipelineWorld:
    return PipelineWorld(tmp_path)


@pytest.mark.parametrize(
    ("index", "change", "reason"),
    [
        (1, {"adapter": "missing"}, "adapter 'missing' is not installed"),
        (1, {"baseUrl": "ftp://x"}, "does not validate: baseUrl"),
        (1, {"adapterConfig": {"unknown": 1}}, "does not validate: unknown"),
        (1, {"headers": {"x": "a\nb"}}, "does not validate: headers.x"),
        (3, {"models": 7}, "does not validate: models"),
        (4, {"bindings": [{"hostId": "no"}]}, "does not validate: bindings.0.hostId"),
        (5, {"valueFrom": {"kind": "gone"}}, "secret backend 'gone' is not installed"),
        (8, {"tags": 1}, "does not validate: tags"),
    ],
)
async def test_f11_a_bad_row_is_quarantined_and_the_rest_loads(
    world: PipelineWorld, index: int, change: dict[str, Any], reason: str
) -> None:
    row = world.draft.rows[index]
    row.spec.update(change)
    snapshot = world.snapshot()
    assert (row.id, reason) in {(bad.id, bad.reason) for bad in snapshot.quarantined}
    good = {*snapshot.hosts, *snapshot.models_by_id, *snapshot.policies}
    assert len(good) >= 2
    assert snapshot.entities == len(world.draft.rows)


async def test_f11_a_row_without_its_sealed_part_is_quarantined(world: PipelineWorld) -> None:
    world.draft.rows[5].sealed.clear()
    world.draft.rows[8].sealed.clear()
    reasons = {bad.id: bad.reason for bad in world.snapshot().quarantined}
    assert reasons == {
        world.draft.rows[5].id: "cannot be read (KeyError)",
        world.draft.rows[8].id: "cannot be read (KeyError)",
    }


async def test_names_of_one_model_never_take_the_name_of_another(world: PipelineWorld) -> None:
    rival = world.draft.model("acme-m", [world.east], provider_id=world.vendor, name="acme/m")
    world.publish()
    assert world.live.current.models["acme/m"].id == rival


async def test_the_longest_wildcard_alias_wins(world: PipelineWorld) -> None:
    world.draft.rows[4].spec["aliases"] = ["gp*"]
    longer = world.draft.model("n", [world.east], provider_id=world.vendor, aliases=["gpt-*"])
    world.publish()
    model, _ = world.live.current.find_model("gpt-9")
    assert model is not None
    assert model.id == longer
