"""``GET /instances``: who is behind, who is silent, and which of them answers."""

from __future__ import annotations

import httpx
import pytest
from msgspec.structs import replace
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.control import ControlServices
from relay_gateway.storage import CatalogStore, NewEntity
from relay_gateway.testing.life_signs import SIGN, listed, pass_time


async def test_nobody_is_listed_before_there_is_a_sign_of_life(admin: httpx.AsyncClient) -> None:
    assert (await admin.get("/instances")).json() == {"newestRevision": 0, "items": []}


async def test_a_process_is_shown_as_it_described_itself(
    admin: httpx.AsyncClient, services: ControlServices
) -> None:
    services.gateway_id = "gateway-a"
    degraded = {"budgets": "what others spend is not known"}
    await services.instances.note(replace(SIGN, state="degraded", degraded=degraded))
    (one,) = await listed(admin)
    assert one.pop("seenSecondsAgo") < 30
    assert one["startedAt"] < one["appliedAt"] < one["lastSeenAt"]
    times = {"startedAt", "appliedAt", "lastSeenAt"}
    assert {name: value for name, value in one.items() if name not in times} == {
        "gatewayId": "gateway-a",
        "gateway": "host:8080",
        "process": "worker-1",
        "instance": "host:17",
        "thisGateway": True,
        "version": "1.2.3",
        "state": "degraded",
        "degraded": degraded,
        "revision": 0,
        "lagRevisions": 0,
        "lagSeconds": 0.0,
        "lagging": False,
        "silent": False,
    }


async def test_who_lacks_a_revision_lags_once_it_has_for_long(
    admin: httpx.AsyncClient, services: ControlServices, store: CatalogStore, engine: AsyncEngine
) -> None:
    await services.instances.note(SIGN)
    await store.create(NewEntity(kind="provider", display_name="Acme", spec={}))
    (soon,) = await listed(admin)
    assert (soon["lagRevisions"], soon["lagging"]) == (1, False)
    await pass_time(engine, "gateway-a", 16)
    (later,) = await listed(admin)
    assert (later["lagRevisions"], later["lagging"], later["silent"]) == (1, True, False)
    assert 16 <= later["lagSeconds"] < 30


async def test_who_is_not_heard_of_is_silent_and_behind_only_when_something_was_written(
    admin: httpx.AsyncClient, services: ControlServices, engine: AsyncEngine
) -> None:
    await services.instances.note(SIGN)
    await pass_time(engine, "gateway-a", 3600)
    (one,) = await listed(admin)
    assert (one["silent"], one["lagRevisions"], one["lagSeconds"]) == (True, 0, 0.0)
    assert 3600 <= one["seenSecondsAgo"] < 3700


async def test_without_a_catalog_nothing_is_said_of_a_lag(
    admin: httpx.AsyncClient, services: ControlServices
) -> None:
    await services.instances.note(replace(SIGN, state="not-ready", revision=None, applied_age=None))
    (one,) = await listed(admin)
    assert (one["state"], one["lagging"]) == ("not-ready", False)
    unknown = ("revision", "lagRevisions", "lagSeconds", "appliedAt")
    assert [one[name] for name in unknown] == [None] * 4


@pytest.mark.parametrize("own", ["gateway-a", "gateway-b"])
async def test_processes_stand_by_gateway_and_number_and_those_that_answer_are_marked(
    admin: httpx.AsyncClient, services: ControlServices, own: str
) -> None:
    services.gateway_id = own
    for process in ("worker-10", "control", "worker-2"):
        await services.instances.note(replace(SIGN, process=process))
    await services.instances.note(replace(SIGN, gateway_id="gateway-b", gateway="another:8080"))
    found = [(one["gateway"], one["process"], one["thisGateway"]) for one in await listed(admin)]
    assert found == [
        ("another:8080", "worker-1", own == "gateway-b"),
        ("host:8080", "control", own == "gateway-a"),
        ("host:8080", "worker-2", own == "gateway-a"),
        ("host:8080", "worker-10", own == "gateway-a"),
    ]
