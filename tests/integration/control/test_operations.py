from __future__ import annotations

from typing import Any

import httpx

from relay_gateway.control import Readiness
from relay_gateway.errors import StorageUnavailableError


async def test_version_and_health_are_public(anonymous: httpx.AsyncClient) -> None:
    version = await anonymous.get("/version")
    assert (version.status_code, version.json()) == (200, {"version": "9.8.7", "commit": "abc123"})
    assert (await anonymous.get("/healthz")).json() == {"status": "ok"}


async def test_f04_readiness_needs_a_snapshot_and_no_drain_and_tells_what_is_degraded(
    anonymous: httpx.AsyncClient, surroundings: Any
) -> None:
    degraded = {"database": "cannot be asked"}
    for readiness, status in (
        (Readiness(snapshot_loaded=True, revision=5, degraded=degraded), 200),
        (Readiness(snapshot_loaded=False), 503),
        (Readiness(snapshot_loaded=True, draining=True), 503),
    ):
        surroundings.readiness = readiness
        answer = await anonymous.get("/readyz")
        assert answer.status_code == status
        assert answer.json() == {
            "ready": status == 200,
            "snapshotLoaded": readiness.snapshot_loaded,
            "draining": readiness.draining,
            "revision": readiness.revision,
            "degraded": dict(readiness.degraded),
        }


async def test_the_admin_bearer_knows_who_it_is(admin: httpx.AsyncClient) -> None:
    answer = await admin.get("/auth/whoami")
    assert answer.json() == {"username": "admin", "method": "admin-token"}


async def test_reload_rebuilds_and_reports(admin: httpx.AsyncClient, surroundings: Any) -> None:
    answer = await admin.post("/reload")
    assert answer.json() == {"revision": 1, "entities": 7, "durationMs": 1.25}
    surroundings.refresh_error = StorageUnavailableError("the database cannot be asked right now")
    assert (await admin.post("/reload")).status_code == 503


async def test_plugins_are_listed_quarantined_ones_too(admin: httpx.AsyncClient) -> None:
    items = (await admin.get("/plugins")).json()["items"]
    assert [(item["name"], item["state"], item["error"]) for item in items] == [
        ("echoes", "open", None),
        ("bad", "quarantined", "cannot be imported"),
    ]
    assert items[0]["distribution"] == "relay-gateway-x"
