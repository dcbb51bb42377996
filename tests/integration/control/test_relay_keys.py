from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.control import ControlServices
from relay_gateway.security.relay_keys import digest, has_valid_checksum
from relay_gateway.storage import CatalogStore

ProblemFields = Callable[[httpx.Response], dict[str, str]]


async def sealed(store: CatalogStore, key_id: str) -> dict[str, Any]:
    return (await store.get("relay key", key_id)).sealed


def contents(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.iterdir())


def seconds_left(former: dict[str, str]) -> float:
    return (datetime.fromisoformat(former["until"]) - datetime.now(UTC)).total_seconds()


async def test_the_plaintext_is_in_the_answer_to_creation_and_nowhere_else(
    admin: httpx.AsyncClient, catalog: Any, store: CatalogStore, tmp_path: Path
) -> None:
    policy = await catalog.policy()
    sent = {"metadata": {"displayName": "App"}, "spec": {"policyId": policy}}
    answer = await admin.post("/relay-keys", json=sent)
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    created = answer.json()
    assert set(created) == {"plaintext", "relayKey"}
    plaintext, key = created["plaintext"], created["relayKey"]
    assert has_valid_checksum(plaintext)
    assert key["spec"]["prefix"] == plaintext[:16]
    assert key["spec"]["revokedAt"] is None
    kept = await sealed(store, key["metadata"]["id"])
    assert kept == {"digest": digest(plaintext), "previous": []}
    for path in ("/relay-keys", "/relay-keys/app"):
        text = (await admin.get(path)).text
        assert plaintext[16:] not in text
        assert kept["digest"] not in text
    files = contents(tmp_path)
    assert kept["digest"].encode() in files
    assert plaintext[16:].encode() not in files


async def test_an_update_keeps_digest_prefix_and_revocation(
    admin: httpx.AsyncClient, catalog: Any, store: CatalogStore
) -> None:
    key = (await catalog.relay_key())["relayKey"]
    key_id = key["metadata"]["id"]
    before = await sealed(store, key_id)
    spec = {"policyId": key["spec"]["policyId"], "tags": {"team": "a"}}
    sent = {"metadata": {"displayName": "Renamed"}, "spec": spec}
    updated = (await admin.put(f"/relay-keys/by-id/{key_id}", json=sent)).json()
    assert updated["spec"]["prefix"] == key["spec"]["prefix"]
    assert updated["spec"]["tags"] == {"team": "a"}
    assert await sealed(store, key_id) == before


async def test_t54_what_the_server_owns_cannot_be_changed(
    admin: httpx.AsyncClient, catalog: Any, problem_fields: ProblemFields
) -> None:
    key = (await catalog.relay_key())["relayKey"]
    url = f"/relay-keys/by-id/{key['metadata']['id']}"
    changed = {**key["spec"], "prefix": "sk-relay-other00", "revokedAt": "2026-01-01T00:00:00Z"}
    assert problem_fields(await admin.put(url, json={**key, "spec": changed})) == {
        "spec.prefix": "read_only",
        "spec.revokedAt": "read_only",
    }
    created = {"metadata": {"displayName": "x"}, "spec": changed}
    assert problem_fields(await admin.post("/relay-keys", json=created)) == {
        "spec.prefix": "read_only",
        "spec.revokedAt": "read_only",
    }
    revoked = (await admin.post(f"{url}/revoke")).json()
    spec = {**revoked["spec"], "revokedAt": None}
    assert problem_fields(await admin.put(url, json={**revoked, "spec": spec})) == {
        "spec.revokedAt": "read_only"
    }


async def test_rotation_gives_a_new_plaintext_and_the_old_one_its_grace(
    admin: httpx.AsyncClient, catalog: Any, store: CatalogStore
) -> None:
    first = await catalog.relay_key()
    key_id = first["relayKey"]["metadata"]["id"]
    url = f"/relay-keys/by-id/{key_id}/rotate"
    second = (await admin.post(url, json={"graceSeconds": 60})).json()
    assert second["plaintext"] != first["plaintext"]
    assert second["relayKey"]["spec"]["prefix"] == second["plaintext"][:16]
    kept = await sealed(store, key_id)
    assert kept["digest"] == digest(second["plaintext"])
    (former,) = kept["previous"]
    assert former["digest"] == digest(first["plaintext"])
    assert 50 < seconds_left(former) <= 60
    third = (await admin.post(url)).json()
    kept = await sealed(store, key_id)
    assert kept["digest"] == digest(third["plaintext"])
    assert [former["digest"] for former in kept["previous"]] == [digest(first["plaintext"])]


async def test_bad_grace_times_are_refused(
    admin: httpx.AsyncClient, catalog: Any, problem_fields: ProblemFields
) -> None:
    key_id = (await catalog.relay_key())["relayKey"]["metadata"]["id"]
    for sent in ({"graceSeconds": -1}, {"graceSeconds": "5"}, {"graceSeconds": 10**12}):
        answer = await admin.post(f"/relay-keys/by-id/{key_id}/rotate", json=sent)
        assert set(problem_fields(answer)) == {"graceSeconds"}


async def test_revocation_ends_every_plaintext_for_good(
    admin: httpx.AsyncClient, catalog: Any, store: CatalogStore, problem_fields: ProblemFields
) -> None:
    key_id = (await catalog.relay_key())["relayKey"]["metadata"]["id"]
    url = f"/relay-keys/by-id/{key_id}"
    await admin.post(f"{url}/rotate", json={"graceSeconds": 3600})
    revoked = (await admin.post(f"{url}/revoke")).json()
    assert revoked["spec"]["revokedAt"].endswith("Z")
    assert (await sealed(store, key_id))["previous"] == []
    again = (await admin.post(f"{url}/revoke")).json()
    assert again["spec"]["revokedAt"] == revoked["spec"]["revokedAt"]
    assert problem_fields(await admin.post(f"{url}/rotate")) == {"spec.revokedAt": "revoked"}


async def test_writes_to_relay_keys_take_effect_before_they_are_answered(
    admin: httpx.AsyncClient, catalog: Any, surroundings: Any
) -> None:
    key_id = (await catalog.relay_key())["relayKey"]["metadata"]["id"]
    before = surroundings.refreshes
    await admin.post(f"/relay-keys/by-id/{key_id}/rotate")
    await admin.post(f"/relay-keys/by-id/{key_id}/revoke")
    assert surroundings.refreshes == before + 2
    for path in ("rotate", "revoke"):
        assert (await admin.post(f"/relay-keys/by-id/acme/{path}")).status_code == 404


async def test_reads_show_when_a_key_was_last_used(
    admin: httpx.AsyncClient, catalog: Any, services: ControlServices
) -> None:
    used, unused = (await catalog.relay_key())["relayKey"], (await catalog.relay_key())["relayKey"]
    assert used["status"] == {"lastUsedAt": None}
    key_id, when = used["metadata"]["id"], "2030-01-01T10:00:00Z"
    await services.relay_key_uses.merge({key_id: when})
    read = (await admin.get(f"/relay-keys/{key_id}")).json()
    assert read["status"] == {"lastUsedAt": when}
    assert read["metadata"] == used["metadata"]
    listed = (await admin.get("/relay-keys")).json()["items"]
    shown = {item["metadata"]["id"]: item["status"]["lastUsedAt"] for item in listed}
    assert shown == {key_id: when, unused["metadata"]["id"]: None}
    sent_back = await admin.put(f"/relay-keys/by-id/{key_id}", json=read)
    assert sent_back.json()["status"] == {"lastUsedAt": when}


async def test_a_use_that_cannot_be_looked_up_fails_no_write(
    admin: httpx.AsyncClient, catalog: Any, engine: AsyncEngine
) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("ALTER TABLE relay_key_uses RENAME TO gone"))
    created = await catalog.relay_key()
    assert has_valid_checksum(created["plaintext"])
    assert "status" not in created["relayKey"]
