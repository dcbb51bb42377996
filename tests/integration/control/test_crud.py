from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from relay_gateway.catalog.kinds import PLURALS
from relay_gateway.ids import new_id

ProblemFields = Callable[[httpx.Response], dict[str, str]]


def body(name: str = "Acme", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"displayName": name}, "spec": spec}


async def test_an_entity_is_created_read_replaced_and_deleted(
    admin: httpx.AsyncClient, surroundings: Any
) -> None:
    created = await admin.post("/providers", json=body(homepageUrl="https://acme.test"))
    assert created.status_code == 201
    assert created.headers["etag"] == '"1"'
    entity = created.json()
    metadata = entity["metadata"]
    assert (metadata["slug"], metadata["version"], metadata["managedBy"]) == ("acme", 1, "api")
    assert entity["spec"]["homepageUrl"] == "https://acme.test"
    assert (await admin.get("/providers/acme")).json() == entity
    assert (await admin.get(f"/providers/{metadata['id']}")).json() == entity

    url = f"/providers/by-id/{metadata['id']}"
    replaced = await admin.put(url, json=body("New name"))
    assert replaced.status_code == 200
    assert replaced.json()["spec"]["homepageUrl"] is None
    assert replaced.json()["metadata"]["slug"] == "acme"
    deleted = await admin.delete(url)
    assert (deleted.status_code, deleted.json()) == (200, {"deleted": True, "id": metadata["id"]})
    for gone in (await admin.get(f"/providers/{metadata['id']}"), await admin.delete(url)):
        assert (gone.status_code, gone.json()["error"]["code"]) == (404, "not_found")
    assert surroundings.refreshes == 3


async def test_every_kind_has_a_list_and_says_when_it_is_empty(admin: httpx.AsyncClient) -> None:
    for plural in PLURALS:
        answer = await admin.get(f"/{plural}")
        assert (answer.status_code, answer.json()) == (200, {"items": [], "total": 0})


async def test_what_a_read_shows_can_be_sent_back(admin: httpx.AsyncClient, catalog: Any) -> None:
    host = await catalog.host()
    vendor = (await catalog.add("providers"))["metadata"]["id"]
    model = await catalog.add(
        "models",
        providerId=vendor,
        aliases=["a-*"],
        bindings=[{"hostId": host, "wireFormats": ["acme.chat"]}],
        deprecated={"since": "2026-01-01T00:00:00+02:00"},
    )
    assert model["spec"]["deprecated"]["since"] == "2025-12-31T22:00:00Z"
    pricing = await catalog.add("pricings", rates=[{"meter": "requests", "amount": 0.25}])
    assert pricing["spec"]["rates"][0]["amount"] == "0.25"
    limit = await catalog.add("rate-limits", rules=[{"meter": "concurrency", "amount": 2}])
    key = await catalog.relay_key(expiresAt="2030-01-01T00:00:00Z", allowedCidrs=["10.1.2.3/8"])
    assert key["relayKey"]["spec"]["allowedCidrs"] == ["10.0.0.0/8"]
    host_key = await catalog.host_key(kind="box", value="s3cret")
    sent = {
        "models": model,
        "pricings": pricing,
        "rate-limits": limit,
        "relay-keys": key["relayKey"],
        "host-keys": host_key,
    }
    for plural, entity in sent.items():
        answer = await admin.put(f"/{plural}/by-id/{entity['metadata']['id']}", json=entity)
        assert answer.status_code == 200, answer.text
        assert answer.json()["spec"] == entity["spec"]
        assert answer.json()["metadata"]["version"] == 2


async def test_every_offending_field_is_named(
    admin: httpx.AsyncClient, problem_fields: ProblemFields
) -> None:
    answer = await admin.post(
        "/models",
        json={
            "metadata": {"displayName": "", "slug": "Not A Slug", "colour": "red"},
            "spec": {
                "providerId": "acme",
                "aliases": ["fine", "b*d", ""],
                "bindings": [{"hostId": 5, "weight": -1}],
                "contextWindow": "many",
                "unknown": 1,
            },
        },
    )
    assert problem_fields(answer) == {
        "metadata.displayName": "string_too_short",
        "metadata.slug": "value_error",
        "metadata.colour": "unknown_field",
        "spec.providerId": "value_error",
        "spec.aliases[1]": "value_error",
        "spec.aliases[2]": "string_too_short",
        "spec.bindings[0].hostId": "string_type",
        "spec.bindings[0].weight": "greater_than_equal",
        "spec.contextWindow": "int_type",
        "spec.unknown": "unknown_field",
    }


async def test_an_empty_object_lacks_both_parts(
    admin: httpx.AsyncClient, problem_fields: ProblemFields
) -> None:
    answer = await admin.post("/providers", json={})
    assert problem_fields(answer) == {"metadata": "required", "spec": "required"}


@pytest.mark.parametrize("field", ["id", "version", "managedBy", "createdAt", "updatedAt"])
async def test_t54_fields_of_the_server_are_refused_on_create(
    admin: httpx.AsyncClient, problem_fields: ProblemFields, field: str
) -> None:
    sent = body()
    sent["metadata"][field] = new_id()
    assert problem_fields(await admin.post("/providers", json=sent)) == {
        f"metadata.{field}": "read_only"
    }
    assert (await admin.get("/providers")).json()["total"] == 0


async def test_t54_sealed_parts_cannot_be_sent(
    admin: httpx.AsyncClient, catalog: Any, problem_fields: ProblemFields
) -> None:
    policy = await catalog.policy()
    sent = {**body(policyId=policy, digest="00", sealed={}), "sealed": {"digest": "00"}}
    assert problem_fields(await admin.post("/relay-keys", json=sent)) == {
        "spec.digest": "unknown_field",
        "spec.sealed": "unknown_field",
        "sealed": "unknown_field",
    }


async def test_an_update_for_another_id_is_refused(
    admin: httpx.AsyncClient, catalog: Any, problem_fields: ProblemFields
) -> None:
    entity = await catalog.add("providers")
    url = f"/providers/by-id/{entity['metadata']['id']}"
    entity["metadata"]["id"] = new_id()
    assert problem_fields(await admin.put(url, json=entity)) == {"metadata.id": "read_only"}


async def test_an_update_addresses_by_id_only(admin: httpx.AsyncClient, catalog: Any) -> None:
    await catalog.add("providers")
    assert (await admin.put("/providers/by-id/acme", json=body())).status_code == 404
    assert (await admin.delete("/providers/by-id/acme")).status_code == 404


@pytest.mark.parametrize("header", ["1", '"1"', None])
async def test_t58_a_lost_update_is_refused_by_header_or_body(
    admin: httpx.AsyncClient, catalog: Any, header: str | None
) -> None:
    entity = await catalog.add("providers")
    url = f"/providers/by-id/{entity['metadata']['id']}"
    headers = {"If-Match": header} if header else {}
    sent = body("Mine") if header else entity
    assert (await admin.put(url, json=sent, headers=headers)).status_code == 200
    late = await admin.put(url, json=sent, headers=headers)
    assert (late.status_code, late.json()["error"]["code"]) == (412, "version_conflict")
    assert (await admin.get("/providers/acme")).json()["metadata"]["version"] == 2


async def test_t58_a_delete_honours_if_match(admin: httpx.AsyncClient, catalog: Any) -> None:
    entity = await catalog.add("providers")
    url = f"/providers/by-id/{entity['metadata']['id']}"
    assert (await admin.delete(url, headers={"If-Match": "2"})).status_code == 412
    assert (await admin.delete(url, headers={"If-Match": "*"})).status_code == 200


@pytest.mark.parametrize("header", ["x", '"1", "2"', "", "-1", "W/1", "9" * 40])
async def test_an_unreadable_if_match_is_refused(
    admin: httpx.AsyncClient, catalog: Any, header: str
) -> None:
    entity = await catalog.add("providers")
    url = f"/providers/by-id/{entity['metadata']['id']}"
    answer = await admin.put(url, json=body(), headers={"If-Match": header})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_parameter")


async def test_concurrent_updates_without_a_version_all_arrive(
    admin: httpx.AsyncClient, catalog: Any
) -> None:
    entity = await catalog.add("providers")
    url = f"/providers/by-id/{entity['metadata']['id']}"
    answers = await asyncio.gather(*(admin.put(url, json=body(str(n))) for n in range(5)))
    assert [answer.status_code for answer in answers] == [200] * 5
    assert sorted(answer.json()["metadata"]["version"] for answer in answers) == [2, 3, 4, 5, 6]


async def test_a_given_slug_is_kept_or_refused(
    admin: httpx.AsyncClient, problem_fields: ProblemFields
) -> None:
    sent = body()
    sent["metadata"]["slug"] = "my-slug"
    assert (await admin.post("/providers", json=sent)).json()["metadata"]["slug"] == "my-slug"
    taken = await admin.post("/providers", json=sent)
    assert (taken.status_code, taken.json()["error"]["code"]) == (409, "slug_taken")
    sent["metadata"]["slug"] = new_id()
    assert problem_fields(await admin.post("/providers", json=sent)) == {
        "metadata.slug": "value_error"
    }


async def test_references_are_checked_listed_and_protected(
    admin: httpx.AsyncClient, catalog: Any, problem_fields: ProblemFields
) -> None:
    answer = await admin.post("/relay-keys", json=body(policyId=new_id()))
    assert problem_fields(answer) == {"spec.policyId": "reference_not_found"}
    key = (await catalog.relay_key())["relayKey"]["metadata"]
    policy = (await admin.get("/policies/acme")).json()["metadata"]["id"]
    referrer = {"kind": "relay key", "id": key["id"], "slug": "acme", "field": "spec.policyId"}
    assert (await admin.get("/policies/acme/references")).json() == {"items": [referrer]}
    refused = await admin.delete(f"/policies/by-id/{policy}")
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "still_referenced")
    assert refused.json()["error"]["referrers"] == [referrer]


async def test_lists_are_paged_and_refuse_what_they_do_not_know(
    admin: httpx.AsyncClient, catalog: Any
) -> None:
    for _ in range(3):
        await catalog.add("providers")
    first = (await admin.get("/providers?limit=2")).json()
    assert ([item["metadata"]["slug"] for item in first["items"]], first["total"]) == (
        ["acme", "acme-2"],
        3,
    )
    rest = (await admin.get("/providers", params={"cursor": first["nextCursor"]})).json()
    assert [item["metadata"]["slug"] for item in rest["items"]] == ["acme-3"]
    assert "nextCursor" not in rest
    for query, name in {
        "limit=0": "limit",
        "limit=1001": "limit",
        "limit=x": "limit",
        "cursor=x": "cursor",
        "colour=red": "colour",
    }.items():
        answer = await admin.get(f"/providers?{query}")
        assert answer.status_code == 400
        assert name in answer.json()["error"]["message"]


async def test_a_parameter_where_there_are_none_is_refused(admin: httpx.AsyncClient) -> None:
    for path in ("/providers/acme?x=1", "/version?x=1", "/plugins?limit=1"):
        assert (await admin.get(path)).json()["error"]["code"] == "unknown_parameter"
    answer = await admin.post("/providers?dryrun=true", json=body())
    assert answer.json()["error"]["code"] == "unknown_parameter"


async def test_a_committed_write_is_a_success_even_when_the_snapshot_cannot_be_rebuilt(
    admin: httpx.AsyncClient, surroundings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    surroundings.refresh_error = RuntimeError("no snapshot")
    assert (await admin.post("/providers", json=body())).status_code == 201
    assert "the snapshot was not rebuilt" in caplog.text


async def test_a_row_of_an_older_version_is_shown_with_every_field(
    admin: httpx.AsyncClient, store: Any
) -> None:
    from relay_gateway.storage import NewEntity

    await store.create(NewEntity(kind="policy", display_name="Old", spec={"models": ["*"]}))
    spec = {"baseUrl": "http://127.0.0.1:9", "adapter": "echoes"}
    await store.create(NewEntity(kind="host", display_name="Old", spec=spec))
    policy = (await admin.get("/policies/old")).json()["spec"]
    assert (policy["models"], policy["keySelection"]) == (["*"], "prioritized")
    host = (await admin.get("/hosts/old")).json()["spec"]
    assert host["adapterConfig"] == {"latencyMs": 0, "region": "eu"}
