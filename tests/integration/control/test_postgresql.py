"""The same control plane on PostgreSQL."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.catalog.fields import list_fields
from relay_gateway.catalog.kinds import KINDS
from relay_gateway.ids import new_id
from relay_gateway.testing.databases import migrated


@pytest.fixture
async def engine(postgres_url: str) -> AsyncIterator[AsyncEngine]:
    async with migrated(postgres_url) as engine:
        yield engine


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


ODD = (
    "", " ", "%", "_", "\\", "'", '"', "';--", "$1", "ü模🚀", "\u202e", "\x01", "null", "true",
    "1e308", "9223372036854775808", "-1e18", "2030-01-01T00:00:00Z", "9999-12-31T23:59:59-23:00",
    "x" * 4096, new_id(), new_id().upper(), "{}", "[]", "a=b", "=", "-", "--",
)  # fmt: skip


async def test_t36_odd_values_of_any_list_parameter_are_answered_or_refused(
    admin: httpx.AsyncClient, catalog: Any
) -> None:
    vendor = (await catalog.add("providers"))["metadata"]["id"]
    await catalog.add("models", providerId=vendor, contextWindow=10**17, aliases=["a%b"])
    names = (*list_fields(KINDS["model"]), "q", "label", "sort", "cursor", "limit")
    for name in names:
        for value in ODD:
            answer = await admin.get("/models", params={name: value})
            assert answer.status_code in (200, 400), (name, value, answer.text)


async def test_t36_a_forged_cursor_is_refused(admin: httpx.AsyncClient, catalog: Any) -> None:
    for _ in range(2):
        await catalog.add("providers")
    url = "/providers?sort=-displayName&limit=1"
    cursor = (await admin.get(url)).json()["nextCursor"]
    listing, key, id_ = json.loads(base64.urlsafe_b64decode(cursor + "=="))
    forged: tuple[Any, ...] = (
        [listing, "\0", id_],
        [listing, 5, id_],
        [listing, key, "\0"],
        [listing, key],
        {},
    )
    for position in forged:
        text = base64.urlsafe_b64encode(json.dumps(position).encode()).decode().rstrip("=")
        refused = await admin.get(f"{url}&cursor={text}")
        assert refused.json()["error"]["code"] == "invalid_parameter"
    assert (await admin.get(f"{url}&cursor={cursor}")).json()["items"]


async def test_t57_and_dry_runs_behave_as_on_sqlite(admin: httpx.AsyncClient, catalog: Any) -> None:
    sent = {"metadata": {"displayName": "Key"}, "spec": {"policyId": await catalog.policy()}}
    headers = {"Idempotency-Key": "k"}
    dry = await admin.post("/relay-keys?dryRun=true", json=sent, headers=headers)
    first = await admin.post("/relay-keys", json=sent, headers=headers)
    again = await admin.post("/relay-keys", json=sent, headers=headers)
    assert [set(answer.json()) for answer in (dry, first, again)] == [
        {"relayKey"},
        {"plaintext", "relayKey"},
        {"relayKey"},
    ]
    assert again.json()["relayKey"] == first.json()["relayKey"]
