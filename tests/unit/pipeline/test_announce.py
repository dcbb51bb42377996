"""A request is accounted for before an upstream is asked, and refused where it could not be."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from relay_gateway.delivery.opened import Opened, interrupted
from relay_gateway.errors import UpstreamClosedError
from relay_gateway.testing.world import PipelineWorld, json_answer


@pytest.fixture
def world(tmp_path: Path) -> PipelineWorld:
    return PipelineWorld(tmp_path)


async def test_a_request_is_announced_once_however_often_it_is_tried(world: PipelineWorld) -> None:
    record = await world.run(world.caller(), UpstreamClosedError("no"), json_answer())
    assert len(record.attempts) == 2
    (told,) = world.ledger.opened
    opened = msgspec.convert(told, Opened)
    told_again = interrupted(opened, record.instance)
    for name in ("request_id", "started_at", "mode", "endpoint", "wire_format", "relay_key_id",
                 "policy_id", "model_id", "provider_id", "requested_model", "client_ip", "tags",
                 "instance"):  # fmt: skip
        assert getattr(told_again, name) == getattr(record, name), name
    assert told_again.host_id == record.attempts[0].host_id
    assert (told_again.outcome, told_again.error_code) == ("aborted", "interrupted")


async def test_a_request_that_is_refused_before_is_not_announced(world: PipelineWorld) -> None:
    record = await world.run(world.caller(key="sk-none"))
    assert record.status == 401
    assert world.ledger.opened == []


async def test_f19_without_room_for_its_record_a_request_is_refused_and_no_upstream_asked(
    world: PipelineWorld,
) -> None:
    world.ledger.full = True
    record = await world.run(world.caller(), json_answer())
    assert (record.status, record.error_code, record.outcome) == (503, "overloaded", "rejected")
    assert world.client.sent == []
    assert record.attempts == ()
