"""The same control plane on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from relay_gateway.storage import CatalogStore, create_engine, migrate


@pytest.fixture
async def store(postgres_url: str) -> AsyncIterator[CatalogStore]:
    await migrate(postgres_url)
    engine = create_engine(postgres_url)
    yield CatalogStore(engine)
    await engine.dispose()


async def test_entities_keys_and_conflicts_behave_as_on_sqlite(
    admin: httpx.AsyncClient, catalog: Any
) -> None:
    key = await catalog.host_key(kind="box", value="first")
    url = f"/host-keys/by-id/{key['metadata']['id']}"
    assert (await admin.put(url, json=key)).status_code == 200
    assert (await admin.put(url, json=key)).status_code == 412
    assert (await admin.delete(f"/hosts/by-id/{key['spec']['hostId']}")).status_code == 409
    relay = (await catalog.relay_key())["relayKey"]
    rotated = await admin.post(
        f"/relay-keys/by-id/{relay['metadata']['id']}/rotate", json={"graceSeconds": 5}
    )
    assert rotated.json()["plaintext"].startswith("sk-relay-")
    page = (await admin.get("/policies?limit=1")).json()
    assert (page["total"], len(page["items"])) == (2, 1)
    assert (await admin.get("/policies", params={"cursor": page["nextCursor"]})).json()["items"]


async def test_names_in_any_script_are_kept(admin: httpx.AsyncClient) -> None:
    name = "Ünïted 模型 🚀 'quoted' \"%_\\ --"
    sent = {"metadata": {"displayName": name, "labels": {"ключ": name}}, "spec": {}}
    created = (await admin.post("/providers", json=sent)).json()
    assert created["metadata"]["displayName"] == name
    assert (await admin.get(f"/providers/{created['metadata']['slug']}")).json() == created
