"""Terms of writes over HTTP: dry runs, repeated creates, versions, and one answer to all faults."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from relay_gateway.ids import new_id

ProblemFields = Callable[[httpx.Response], dict[str, str]]


def body(name: str = "Acme", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"displayName": name}, "spec": spec}


async def test_a_dry_run_of_a_create_shows_what_would_be(
    admin: httpx.AsyncClient, surroundings: Any
) -> None:
    answer = await admin.post("/providers?dryRun=true", json=body(icon="a"))
    assert (answer.status_code, answer.headers["x-relay-dry-run"]) == (201, "true")
    assert answer.json()["metadata"]["slug"] == "acme"
    assert answer.json()["spec"]["icon"] == "a"
    assert (await admin.get("/providers")).json()["total"] == 0
    assert surroundings.refreshes == 0
    written = await admin.post("/providers?dryRun=false", json=body())
    assert "x-relay-dry-run" not in written.headers
    assert (await admin.get("/providers")).json()["total"] == 1


async def test_a_dry_run_of_an_update_and_of_a_delete_changes_nothing(
    admin: httpx.AsyncClient, catalog: Any, surroundings: Any
) -> None:
    entity = await catalog.add("providers")
    url = f"/providers/by-id/{entity['metadata']['id']}?dryRun=true"
    answer = await admin.put(url, json=body("New"))
    assert (answer.status_code, answer.headers["etag"]) == (200, '"2"')
    assert answer.json()["metadata"]["displayName"] == "New"
    assert answer.headers["x-relay-dry-run"] == "true"
    deleted = await admin.delete(url)
    assert (deleted.status_code, deleted.headers["x-relay-dry-run"]) == (200, "true")
    assert (await admin.get("/providers/acme")).json() == entity
    assert surroundings.refreshes == 1


async def test_a_dry_run_is_refused_like_the_write(
    admin: httpx.AsyncClient, catalog: Any, problem_fields: ProblemFields
) -> None:
    key = (await catalog.relay_key())["relayKey"]
    policy = f"/policies/by-id/{key['spec']['policyId']}?dryRun=true"
    assert (await admin.delete(policy)).json()["error"]["code"] == "still_referenced"
    stale = await admin.put(policy, json=body(), headers={"If-Match": "7"})
    assert stale.status_code == 412
    answer = await admin.post("/relay-keys?dryRun=true", json=body(policyId=new_id()))
    assert problem_fields(answer) == {"spec.policyId": "reference_not_found"}
    slug = {"metadata": {"displayName": "x", "slug": "acme"}, "spec": {}}
    assert (await admin.post("/policies?dryRun=true", json=slug)).status_code == 409


async def test_t57_a_dry_run_of_a_relay_key_has_no_plaintext_and_no_prefix(
    admin: httpx.AsyncClient, catalog: Any
) -> None:
    policy = await catalog.policy()
    created = await admin.post("/relay-keys?dryRun=true", json=body(policyId=policy))
    assert created.status_code == 201
    assert set(created.json()) == {"relayKey"}
    assert created.json()["relayKey"]["spec"]["prefix"] is None
    assert "sk-relay-" not in created.text
    key = (await admin.post("/relay-keys", json=body(policyId=policy))).json()["relayKey"]
    url = f"/relay-keys/by-id/{key['metadata']['id']}"
    rotated = await admin.post(f"{url}/rotate?dryRun=true")
    assert (rotated.status_code, set(rotated.json())) == (200, {"relayKey"})
    assert "sk-relay-" not in rotated.text
    revoked = await admin.post(f"{url}/revoke?dryRun=true")
    assert revoked.json()["spec"]["revokedAt"] is not None
    assert (await admin.get("/relay-keys/acme")).json() == key


async def test_a_dry_run_of_a_host_keys_rotation_keeps_the_old_value(
    admin: httpx.AsyncClient, catalog: Any, store: Any
) -> None:
    key = (await catalog.host_key(kind="box", value="first"))["metadata"]
    before = await store.get("host key", key["id"])
    sent = {"valueFrom": {"kind": "box", "value": "second"}}
    answer = await admin.post(f"/host-keys/by-id/{key['id']}/rotate?dryRun=true", json=sent)
    assert (answer.status_code, answer.headers["x-relay-dry-run"]) == (200, "true")
    assert await store.get("host key", key["id"]) == before


async def test_t57_a_repeated_create_answers_the_same_once_made(
    admin: httpx.AsyncClient, surroundings: Any
) -> None:
    headers = {"Idempotency-Key": "c0ffee"}
    first = await admin.post("/providers", json=body(icon="a"), headers=headers)
    reordered = dict(reversed(body(icon="a").items()))
    second = await admin.post("/providers", json=reordered, headers=headers)
    assert (second.status_code, second.json()) == (201, first.json())
    assert second.headers["idempotent-replayed"] == "true"
    assert second.headers["etag"] == first.headers["etag"]
    assert "idempotent-replayed" not in first.headers
    assert (await admin.get("/providers")).json()["total"] == 1
    url = f"/providers/by-id/{first.json()['metadata']['id']}"
    await admin.put(url, json=body("Changed"))
    again = await admin.post("/providers", json=body(icon="a"), headers=headers)
    assert again.json() == first.json()
    assert surroundings.refreshes == 2


async def test_t57_a_repeated_relay_key_comes_without_its_plaintext(
    admin: httpx.AsyncClient, catalog: Any
) -> None:
    sent, headers = body(policyId=await catalog.policy()), {"Idempotency-Key": "k"}
    first = (await admin.post("/relay-keys", json=sent, headers=headers)).json()
    assert first["plaintext"].startswith("sk-relay-")
    second = await admin.post("/relay-keys", json=sent, headers=headers)
    assert (second.status_code, second.json()) == (201, {"relayKey": first["relayKey"]})
    assert second.headers["cache-control"] == "no-store"
    assert (await admin.get("/relay-keys")).json()["total"] == 1


async def test_t57_double_submits_at_once_make_one_key(
    admin: httpx.AsyncClient, catalog: Any
) -> None:
    sent, headers = body(policyId=await catalog.policy()), {"Idempotency-Key": "k"}
    answers = await asyncio.gather(
        *(admin.post("/relay-keys", json=sent, headers=headers) for _ in range(4))
    )
    assert [answer.status_code for answer in answers] == [201] * 4
    assert sum("plaintext" in answer.json() for answer in answers) == 1
    assert len({answer.json()["relayKey"]["metadata"]["id"] for answer in answers}) == 1


async def test_t57_a_key_with_another_body_or_kind_is_refused(admin: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "k"}
    await admin.post("/providers", json=body(), headers=headers)
    for url, sent in (("/providers", body("Other")), ("/policies", body())):
        answer = await admin.post(url, json=sent, headers=headers)
        assert answer.status_code == 422
        assert answer.json()["error"]["code"] == "idempotency_key_reused"
    dry = await admin.post("/policies?dryRun=true", json=body(), headers=headers)
    assert dry.status_code == 201
    assert (await admin.get("/policies")).json()["total"] == 0


@pytest.mark.parametrize("key", ["", "a b", "x" * 256])
async def test_an_idempotency_key_that_is_none_is_refused(
    admin: httpx.AsyncClient, key: str
) -> None:
    for url in ("/providers", "/relay-keys"):
        answer = await admin.post(url, json=body(), headers={"Idempotency-Key": key})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_parameter")


async def test_reads_and_writes_of_one_entity_carry_its_version_as_etag(
    admin: httpx.AsyncClient, catalog: Any
) -> None:
    created = await admin.post("/relay-keys", json=body(policyId=await catalog.policy()))
    url = f"/relay-keys/by-id/{created.json()['relayKey']['metadata']['id']}"
    answers = [
        created,
        await admin.post(f"{url}/rotate", headers={"If-Match": created.headers["etag"]}),
        await admin.post(f"{url}/revoke", headers={"If-Match": '"2"'}),
        await admin.get("/relay-keys/acme"),
    ]
    assert [answer.headers["etag"] for answer in answers] == ['"1"', '"2"', '"3"', '"3"']


async def test_t58_rotations_and_revocations_honour_if_match(
    admin: httpx.AsyncClient, catalog: Any
) -> None:
    relay = (await catalog.relay_key())["relayKey"]["metadata"]["id"]
    host = (await catalog.host_key(kind="box", value="v"))["metadata"]["id"]
    stale = {"If-Match": '"9"'}
    value = {"valueFrom": {"kind": "box", "value": "w"}}
    for url, sent in (
        (f"/relay-keys/by-id/{relay}/rotate", {}),
        (f"/relay-keys/by-id/{relay}/revoke", {}),
        (f"/host-keys/by-id/{host}/rotate", value),
    ):
        answer = await admin.post(url, json=sent, headers=stale)
        assert (answer.status_code, answer.json()["error"]["code"]) == (412, "version_conflict")


async def test_fields_references_names_and_slugs_are_refused_in_one_answer(
    admin: httpx.AsyncClient, catalog: Any, problem_fields: ProblemFields
) -> None:
    vendor = (await catalog.add("providers"))["metadata"]["id"]
    await catalog.add("models", "Big", providerId=vendor, aliases=["large"])
    sent = {
        "metadata": {"displayName": "", "slug": "big"},
        "spec": {
            "providerId": new_id(),
            "aliases": ["large", "fine"],
            "contextWindow": "many",
            "bindings": [{"hostId": vendor}, {"hostId": "no-id"}],
        },
    }
    assert problem_fields(await admin.post("/models", json=sent)) == {
        "metadata.displayName": "string_too_short",
        "metadata.slug": "slug_taken",
        "spec.name": "name_taken",
        "spec.providerId": "reference_not_found",
        "spec.aliases[0]": "name_taken",
        "spec.contextWindow": "int_type",
        "spec.bindings[0].hostId": "reference_not_found",
        "spec.bindings[1].hostId": "value_error",
    }


async def test_what_a_secret_backend_refuses_comes_with_missing_references(
    admin: httpx.AsyncClient, problem_fields: ProblemFields
) -> None:
    sent = body(hostId=new_id(), policyId=new_id(), valueFrom={"kind": "box"})
    assert problem_fields(await admin.post("/host-keys", json=sent)) == {
        "spec.valueFrom.value": "secret_ref_invalid",
        "spec.hostId": "reference_not_found",
        "spec.policyId": "reference_not_found",
    }


async def test_an_update_names_its_own_slug_and_names_without_fault(
    admin: httpx.AsyncClient, catalog: Any, problem_fields: ProblemFields
) -> None:
    vendor = (await catalog.add("providers"))["metadata"]["id"]
    model = await catalog.add("models", "Big", providerId=vendor, aliases=["large"])
    model["spec"]["contextWindow"] = 0
    url = f"/models/by-id/{model['metadata']['id']}"
    assert problem_fields(await admin.put(url, json=model)) == {
        "spec.contextWindow": "greater_than_equal"
    }


async def test_t54_server_owned_metadata_may_come_back_only_as_it_was(
    admin: httpx.AsyncClient, catalog: Any, problem_fields: ProblemFields
) -> None:
    entity = await catalog.add("providers")
    url = f"/providers/by-id/{entity['metadata']['id']}"
    forged = {**entity["metadata"], "managedBy": "file", "createdAt": "2020-01-01T00:00:00Z"}
    answer = await admin.put(url, json={**entity, "metadata": forged})
    assert problem_fields(answer) == {
        "metadata.managedBy": "read_only",
        "metadata.createdAt": "read_only",
    }
    assert (await admin.put(url, json=entity)).status_code == 200


async def test_t58_a_stale_version_is_told_before_other_faults(
    admin: httpx.AsyncClient, catalog: Any
) -> None:
    entity = await catalog.add("providers")
    entity["metadata"]["version"] = 7
    entity["spec"]["unknown"] = 1
    url = f"/providers/by-id/{entity['metadata']['id']}"
    assert (await admin.put(url, json=entity)).status_code == 412
