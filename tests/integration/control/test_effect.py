"""A committed write is a success, whatever becomes of the snapshot after it."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from relay_gateway.control import ControlServices, ReloadReport
from relay_gateway.errors import StorageUnavailableError

HEADER = "x-relay-propagation"
ENTITY = {"metadata": {"displayName": "Acme"}, "spec": {}}


async def gone() -> ReloadReport:
    raise StorageUnavailableError("the database cannot be asked right now")


async def defect() -> ReloadReport:
    raise RuntimeError("no snapshot")


async def endless() -> ReloadReport:
    await asyncio.Event().wait()
    raise AssertionError("never comes")


async def given_up() -> ReloadReport:
    build = asyncio.get_running_loop().create_task(endless())
    build.cancel()
    return await asyncio.shield(build)


@pytest.mark.parametrize("refresh", [gone, defect, endless, given_up])
async def test_every_write_is_answered_with_what_was_written_and_says_what_is_pending(
    admin: httpx.AsyncClient, catalog: Any, services: ControlServices,
    monkeypatch: pytest.MonkeyPatch, refresh: Any,
) -> None:  # fmt: skip
    key = (await catalog.relay_key())["relayKey"]
    monkeypatch.setattr("relay_gateway.control.effect.EFFECT_SECONDS", 0.01)
    services.refresh = refresh
    url = f"/relay-keys/by-id/{key['metadata']['id']}"
    answers = [
        created := await admin.post("/providers", json=ENTITY),
        await admin.post(f"{url}/rotate"),
        await admin.post(f"{url}/revoke"),
        await admin.put("/settings/routing", json={"maxAttempts": 2}),
    ]
    provider = f"/providers/by-id/{created.json()['metadata']['id']}"
    answers.append(await admin.put(provider, json=created.json()))
    answers.append(await admin.delete(provider))
    assert [answer.status_code for answer in answers] == [201, 200, 200, 200, 200, 200]
    assert {answer.headers[HEADER] for answer in answers} == {"pending"}
    assert (await admin.get("/relay-keys/acme")).json()["spec"]["revokedAt"]
    assert (await admin.get("/providers/acme")).status_code == 404
    assert (await admin.get("/settings/routing")).json()["maxAttempts"] == 2


async def test_what_is_in_effect_or_was_not_written_is_not_pending(
    admin: httpx.AsyncClient, services: ControlServices
) -> None:
    assert HEADER not in (await admin.post("/providers", json=ENTITY)).headers
    services.refresh = gone
    pending = await admin.post("/providers", json=ENTITY)
    assert pending.headers[HEADER] == "pending"
    assert HEADER not in (await admin.get("/providers")).headers
    assert HEADER not in (await admin.post("/providers?dryRun=true", json=ENTITY)).headers
    refused = await admin.post("/providers", json={"metadata": {}, "spec": {}})
    assert refused.status_code == 422
    assert HEADER not in refused.headers


async def test_a_caller_that_leaves_ends_its_request_and_not_the_write(
    admin: httpx.AsyncClient, services: ControlServices
) -> None:
    written = asyncio.Event()

    async def refresh() -> ReloadReport:
        written.set()
        return await endless()

    services.refresh = refresh
    request = asyncio.create_task(admin.post("/providers", json=ENTITY))
    await asyncio.wait_for(written.wait(), 5)
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request
    assert (await admin.get("/providers/acme")).status_code == 200
