"""Whole gateways with different master keys on one database."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from relay_gateway.errors import SecretDeniedError
from relay_gateway.server.gateway import Gateway
from relay_gateway.testing.context import master_key
from relay_gateway.testing.instances import Instances, control_of, until

HOST = {"baseUrl": "http://127.0.0.1:9", "adapter": "echo"}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, instances: Instances) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{instances.directory}/shared.sqlite3"
    found: str = request.getfixturevalue("postgres_url")
    return found


def ring(*names: str) -> str:
    return ",".join(master_key(name).reveal() for name in names)


async def add(client: httpx.AsyncClient, plural: str, **spec: Any) -> httpx.Response:
    body = {"metadata": {"displayName": "Acme"}, "spec": spec}
    return await client.post(f"/{plural}", json=body)


async def add_key(client: httpx.AsyncClient, value: str) -> httpx.Response:
    host = (await add(client, "hosts", **HOST)).json()["metadata"]["id"]
    policy = (await add(client, "policies", models=["*"])).json()["metadata"]["id"]
    value_from = {"kind": "stored", "value": value}
    return await add(client, "host-keys", hostId=host, policyId=policy, valueFrom=value_from)


async def opens(gateway: Gateway, key_id: str) -> str:
    """What the host key holds, as this gateway would send it."""
    await gateway.watcher.refresh()
    return (await gateway.credentials.get(gateway.live.current.host_keys[key_id])).reveal()


async def test_t63_a_fleet_rotates_without_a_moment_in_which_it_cannot_serve(
    instances: Instances, url: str
) -> None:
    first = await instances.open(url, "first", master_key=ring("old"))
    async with control_of(first) as admin:
        key = (await add_key(admin, "sk-1")).json()["metadata"]["id"]
    assert await opens(first, key) == "sk-1"
    # The new key behind the old one everywhere, then in front, one instance at a time.
    second = await instances.open(url, "second", master_key=ring("old", "new"))
    third = await instances.open(url, "third", master_key=ring("new", "old"))
    assert [await opens(one, key) for one in (second, third)] == ["sk-1", "sk-1"]
    async with control_of(third) as admin:
        later = (await add_key(admin, "sk-2")).json()["metadata"]["id"]
        assert await opens(second, later) == "sk-2"
        with pytest.raises(SecretDeniedError, match="is sealed with master key"):
            await opens(first, later)
        assert (await admin.post("/master-key/rotate")).status_code == 202

        async def remaining() -> int:
            (backend,) = (await admin.get("/master-key/status")).json()["backends"]
            return int(backend["remaining"])

        for _ in range(1000):
            if not await remaining():
                break
        assert await remaining() == 0
    last = await instances.open(url, "last", master_key=ring("new"))
    assert [await opens(one, key) for one in (second, third, last)] == ["sk-1"] * 3
    assert last.readiness().degraded.get("master key of stored") is None


async def test_t63_a_gateway_with_a_wrong_key_serves_says_so_and_writes_no_value(
    instances: Instances, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    right = await instances.open(url, "right", master_key=ring("right"))
    await until(lambda: right.live.loaded)
    async with control_of(right) as admin:
        key = (await add_key(admin, "sk-1")).json()["metadata"]["id"]
    wrong = await instances.open(url, "wrong", master_key=ring("wrong"))
    await until(lambda: wrong.key_watch.troubles)
    assert "do not belong to this database" in caplog.text
    async with control_of(wrong) as admin:
        ready = await admin.get("/readyz")
        assert (ready.status_code, ready.json()["ready"]) == (200, True)
        assert "do not belong" in ready.json()["degraded"]["master key of stored"]
        refused = await add_key(admin, "sk-2")
        assert refused.status_code == 409, refused.text
        assert refused.json()["error"]["code"] == "master_key_mismatch"
        assert (await add(admin, "providers")).status_code == 201
        with pytest.raises(SecretDeniedError, match="undecryptable"):
            await opens(wrong, key)
        shown = (await admin.get(f"/host-keys/{key}")).json()
        assert shown["spec"]["valueFrom"]["keyId"]
    assert await opens(right, key) == "sk-1"
    assert right.key_watch.troubles == {}
