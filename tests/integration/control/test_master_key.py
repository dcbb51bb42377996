"""``/master-key`` over HTTP, on a backend that seals."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.control import ControlServices, create_control_app
from relay_gateway.testing.instances import until
from relay_gateway.testing.sealing import Fleet, Sealer

ADMIN_TOKEN = "admin-token-3f9c"
Open = Callable[[Sealer], httpx.AsyncClient]


@pytest.fixture
def fleet(engine: AsyncEngine, tmp_path: Path) -> Fleet:
    return Fleet(engine, tmp_path)


@pytest.fixture
async def client_of(services: ControlServices) -> AsyncIterator[Open]:
    clients: list[httpx.AsyncClient] = []

    def open_one(sealer: Sealer) -> httpx.AsyncClient:
        services.secret_backends = sealer.backends
        transport = httpx.ASGITransport(create_control_app(services))
        headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
        clients.append(
            httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers)
        )
        return clients[-1]

    yield open_one
    for client in clients:
        await client.aclose()


async def status(client: httpx.AsyncClient) -> dict[str, Any]:
    answer = await client.get("/master-key/status")
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


async def ended(client: httpx.AsyncClient) -> dict[str, Any]:
    for _ in range(1000):
        shown = await status(client)
        if not shown["running"]:
            return shown
    raise AssertionError("the rotation does not end")


async def test_a_generated_master_key_is_32_fresh_bytes(fleet: Fleet, client_of: Open) -> None:
    client = client_of(await fleet.instance("a"))
    keys = [(await client.post("/master-key/generate")).json()["key"] for _ in range(2)]
    assert [len(base64.b64decode(key, validate=True)) for key in keys] == [32, 32]
    assert keys[0] != keys[1]


async def test_t63_a_rotation_is_begun_and_its_progress_is_shown(
    fleet: Fleet, client_of: Open, surroundings: Any
) -> None:
    old = await fleet.instance("old")
    rows = await old.add_keys(*(f"sk-{number}" for number in range(45)))
    both = await fleet.instance("new", "old")
    client = client_of(both)
    dry = await client.post("/master-key/rotate?dryRun=true")
    assert (dry.status_code, dry.json()["running"]) == (200, False)
    assert dry.json()["backends"][0]["remaining"] == 45
    assert set(await both.sealed_with(rows)) == {old.key_id}
    begun = await client.post("/master-key/rotate")
    assert (begun.status_code, begun.json()["running"]) == (202, True)
    assert (await client.post("/master-key/rotate")).status_code == 202
    shown = await ended(client)
    assert shown["progress"] == {"total": 45, "rewrapped": 45, "failed": 0, "failures": []}
    (backend,) = shown["backends"]
    assert (backend["state"], backend["currentKeyId"]) == ("good", both.key_id)
    assert backend["rewrap"]["state"] == "finished"
    assert [(key["references"], key["removable"]) for key in backend["keys"]] == [
        (45, False),
        (0, True),
    ]
    assert "error" not in shown
    await until(lambda: surroundings.refreshes)
    assert [await both.value_of(row) for row in rows] == [f"sk-{n}" for n in range(45)]


async def test_t63_with_a_wrong_key_writes_of_values_and_rotations_are_409(
    fleet: Fleet, client_of: Open
) -> None:
    right = await fleet.instance("right")
    row = await right.add_key("sk-1")
    client = client_of(await fleet.instance("wrong"))
    refused = await client.post("/master-key/rotate")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "master_key_mismatch")
    url = f"/host-keys/by-id/{row.id}"
    body = {"valueFrom": {"kind": "stored", "value": "sk-2"}}
    rotated = await client.post(f"{url}/rotate", json=body)
    assert (rotated.status_code, rotated.json()["error"]["code"]) == (409, "master_key_mismatch")
    assert right.key_id in rotated.json()["error"]["message"]
    assert "sk-2" not in rotated.text
    # A change that leaves the value alone is made.
    shown = (await client.get(f"/host-keys/{row.id}")).json()
    shown["spec"]["weight"] = 7
    assert (await client.put(url, json=shown)).status_code == 200
    assert await right.value_of(row) == "sk-1"
    (backend,) = (await status(client))["backends"]
    assert (backend["state"], backend["unreadable"]) == ("mismatch", 1)
    assert "do not belong" in backend["trouble"]


async def test_a_rotation_without_a_key_or_a_sealing_backend_is_409(
    fleet: Fleet, client_of: Open, admin: httpx.AsyncClient
) -> None:
    for client in (client_of(await fleet.instance()), admin):
        refused = await client.post("/master-key/rotate")
        assert (refused.status_code, refused.json()["error"]["code"]) == (
            409,
            "master_key_mismatch",
        )
    assert await status(admin) == {"backends": [], "running": False}
