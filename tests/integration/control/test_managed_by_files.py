"""What files declare is not changed beside them, unless somebody insists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pytest

from relay_gateway.storage import AuditLog, CatalogStore, NewEntity
from relay_gateway.storage.audit import AuditQuery

if TYPE_CHECKING:
    from sqlalchemy.ext.asyncio import AsyncEngine

    from .conftest import Catalog


async def managed(store: CatalogStore, manager: Any = "file") -> str:
    entity = NewEntity(kind="provider", slug="acme", display_name="A", spec={}, managed_by=manager)
    return (await store.create(entity)).id


BODY = {"metadata": {"displayName": "B"}, "spec": {}}


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
@pytest.mark.parametrize("dry_run", ["true", "false"])
async def test_a_write_is_refused_until_it_is_forced(
    admin: httpx.AsyncClient, store: CatalogStore, method: str, dry_run: str
) -> None:
    path = f"/providers/by-id/{await managed(store)}"
    body = BODY if method == "PUT" else None
    query = {"dryRun": dry_run}
    refused = await admin.request(method, path, json=body, params=query)
    assert refused.status_code == 409
    assert refused.json()["error"]["code"] == "managed_by_file"
    assert (await store.get("provider", "acme")).version == 1
    forced = await admin.request(method, path, json=body, params={**query, "force": "true"})
    assert forced.status_code == 200


async def test_t59_a_forced_write_is_audited_as_such(
    admin: httpx.AsyncClient, store: CatalogStore, engine: AsyncEngine
) -> None:
    path = f"/providers/by-id/{await managed(store)}"
    await admin.put(path, json=BODY, params={"force": "true"})
    (record,) = await AuditLog(engine).page(AuditQuery(limit=1))
    assert (record.action, record.detail) == ("update", {"forced": True})
    assert (await store.get("provider", "acme")).managed_by == "file"


async def test_a_changed_shipped_entity_is_the_clients_from_then_on(
    admin: httpx.AsyncClient, store: CatalogStore
) -> None:
    path = f"/providers/by-id/{await managed(store, 'catalog')}"
    answer = await admin.put(path, json=BODY)
    assert answer.json()["metadata"]["managedBy"] == "api"


async def test_a_host_keys_value_is_the_files_and_a_relay_keys_plaintext_is_not(
    admin: httpx.AsyncClient, catalog: Catalog, engine: AsyncEngine
) -> None:
    host_key = (await catalog.host_key(kind="box", value="sk-one"))["metadata"]["id"]
    relay_key = (await catalog.relay_key())["relayKey"]["metadata"]["id"]
    async with engine.begin() as connection:
        await connection.exec_driver_sql("UPDATE entities SET managed_by = 'file'")
    rotation = {"valueFrom": {"kind": "box", "value": "sk-two"}}
    path = f"/host-keys/by-id/{host_key}/rotate"
    assert (await admin.post(path, json=rotation)).status_code == 409
    assert (await admin.post(f"{path}?force=true", json=rotation)).status_code == 200
    assert (await admin.post(f"/relay-keys/by-id/{relay_key}/rotate", json={})).status_code == 200
    assert (await admin.post(f"/relay-keys/by-id/{relay_key}/revoke")).status_code == 200
