from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from relay_gateway.ids import new_id
from relay_gateway.storage import CatalogStore

ProblemFields = Callable[[httpx.Response], dict[str, str]]


async def sealed(store: CatalogStore, entity: dict[str, Any]) -> dict[str, Any]:
    return (await store.get("host key", entity["metadata"]["id"])).sealed


async def test_a_reference_is_kept_and_shown_as_it_was_given(
    catalog: Any, store: CatalogStore
) -> None:
    key = await catalog.host_key(kind="variable", variable="ACME_KEY")
    assert key["spec"]["valueFrom"] == {"kind": "variable", "variable": "ACME_KEY"}
    assert key["status"] == {"state": "benched"}
    assert await sealed(store, key) == {
        "valueFrom": {"kind": "variable", "variable": "ACME_KEY"},
        "generation": 1,
    }


async def test_t60_a_value_is_sealed_to_its_row_and_never_shown(
    admin: httpx.AsyncClient, catalog: Any, store: CatalogStore
) -> None:
    key = await catalog.host_key(kind="box", value="s3cret-value")
    key_id = key["metadata"]["id"]
    assert key["spec"]["valueFrom"] == {"kind": "box", "label": "kept"}
    kept = await sealed(store, key)
    place = f"host key/{key_id}/spec.valueFrom/1"
    assert kept["valueFrom"]["ciphertext"] == f"eulav-terc3s@{place}"
    for path in ("/host-keys", f"/host-keys/{key_id}", f"/host-keys/by-id/{key_id}/status"):
        text = (await admin.get(path)).text
        assert "s3cret" not in text
        assert "terc3s" not in text


async def test_an_update_without_a_value_keeps_the_sealed_one_and_its_generation(
    admin: httpx.AsyncClient, catalog: Any, store: CatalogStore
) -> None:
    key = await catalog.host_key(kind="box", value="first")
    before = await sealed(store, key)
    key["spec"]["weight"] = 7
    answer = await admin.put(f"/host-keys/by-id/{key['metadata']['id']}", json=key)
    assert answer.json()["spec"]["weight"] == 7
    assert await sealed(store, key) == before


async def test_t61_each_new_value_has_the_next_generation(
    admin: httpx.AsyncClient, catalog: Any, store: CatalogStore
) -> None:
    key = await catalog.host_key(kind="box", value="first")
    url = f"/host-keys/by-id/{key['metadata']['id']}"
    key["spec"]["valueFrom"] = {"kind": "box", "value": "second"}
    del key["metadata"]["version"]
    assert (await admin.put(url, json=key)).status_code == 200
    assert (await sealed(store, key))["generation"] == 2
    rotated = await admin.post(f"{url}/rotate", json={"valueFrom": {"kind": "box", "value": "3"}})
    assert rotated.status_code == 200
    kept = await sealed(store, key)
    assert kept["generation"] == 3
    assert kept["valueFrom"]["ciphertext"].endswith("/3")


async def test_another_backend_never_sees_what_the_first_one_kept(
    admin: httpx.AsyncClient, catalog: Any, store: CatalogStore, problem_fields: ProblemFields
) -> None:
    key = await catalog.host_key(kind="variable", variable="ACME_KEY")
    url = f"/host-keys/by-id/{key['metadata']['id']}"
    key["spec"]["valueFrom"] = {"kind": "box"}
    assert problem_fields(await admin.put(url, json=key)) == {
        "spec.valueFrom.value": "secret_ref_invalid"
    }
    key["spec"]["valueFrom"] = {"kind": "box", "value": "x"}
    assert (await admin.put(url, json=key)).status_code == 200
    assert (await sealed(store, key))["generation"] == 2


async def test_a_kept_value_that_cannot_be_read_must_be_given_again(
    admin: httpx.AsyncClient, catalog: Any, store: CatalogStore, problem_fields: ProblemFields
) -> None:
    from relay_gateway.storage import EntityChange

    key = await catalog.host_key(kind="box", value="first")
    row = await store.get("host key", key["metadata"]["id"])
    damaged = {"valueFrom": {"kind": "box"}, "generation": 1}
    change = EntityChange(display_name=row.display_name, spec=row.spec, sealed=damaged)
    await store.update("host key", row.id, change)
    del key["metadata"]["version"]
    answer = await admin.put(f"/host-keys/by-id/{row.id}", json=key)
    assert problem_fields(answer) == {"spec.valueFrom.value": "secret_ref_invalid"}


@pytest.mark.parametrize(
    ("value_from", "expected"),
    [
        ({"kind": "vaulted", "path": "x"}, {"spec.valueFrom.kind": "unknown_kind"}),
        ({"kind": 5}, {"spec.valueFrom.kind": "unknown_kind"}),
        ({}, {"spec.valueFrom.kind": "required"}),
        ({"kind": "variable"}, {"spec.valueFrom.variable": "required"}),
        ({"kind": "variable", "variable": ""}, {"spec.valueFrom.variable": "string_too_short"}),
        (
            {"kind": "variable", "variable": "A", "value": "s3cret"},
            {"spec.valueFrom.value": "unknown_field"},
        ),
        (
            {"kind": "variable", "variable": "RELAY_MASTER_KEY"},
            {"spec.valueFrom.variable": "secret_ref_invalid"},
        ),
        ("s3cret", {"spec.valueFrom": "dict_type"}),
    ],
)
async def test_t07_a_reference_that_is_not_acceptable_is_refused_by_field(
    admin: httpx.AsyncClient,
    catalog: Any,
    problem_fields: ProblemFields,
    value_from: Any,
    expected: dict[str, str],
) -> None:
    host, policy = await catalog.host(), await catalog.policy()
    sent = {
        "metadata": {"displayName": "K"},
        "spec": {"hostId": host, "policyId": policy, "valueFrom": value_from},
    }
    answer = await admin.post("/host-keys", json=sent)
    assert problem_fields(answer) == expected
    assert "s3cret" not in answer.text
    if "spec.valueFrom.kind" in expected:
        assert "installed: box, variable" in answer.text


async def test_problems_of_the_reference_are_told_along_with_the_others(
    admin: httpx.AsyncClient, problem_fields: ProblemFields
) -> None:
    sent = {"metadata": {}, "spec": {"hostId": 1, "valueFrom": {"kind": "vaulted"}}}
    assert problem_fields(await admin.post("/host-keys", json=sent)) == {
        "metadata.displayName": "required",
        "spec.hostId": "string_type",
        "spec.policyId": "required",
        "spec.valueFrom.kind": "unknown_kind",
    }


async def test_a_rotation_needs_a_value_of_its_own(
    admin: httpx.AsyncClient, catalog: Any, problem_fields: ProblemFields
) -> None:
    key = await catalog.host_key(kind="box", value="first")
    url = f"/host-keys/by-id/{key['metadata']['id']}/rotate"
    for sent, expected in (
        ({}, {"valueFrom": "required"}),
        ({"valueFrom": {"kind": "x"}}, {"valueFrom.kind": "unknown_kind"}),
        ({"valueFrom": {"kind": "box"}}, {"valueFrom.value": "secret_ref_invalid"}),
    ):
        assert problem_fields(await admin.post(url, json=sent)) == expected


async def test_t11_a_backend_that_fails_is_named_and_its_text_is_not_repeated(
    admin: httpx.AsyncClient, catalog: Any, surroundings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    host, policy = await catalog.host(), await catalog.policy()
    surroundings.box.broken = True
    value_from = {"kind": "box", "value": "s3cret-value"}
    sent = {
        "metadata": {"displayName": "K"},
        "spec": {"hostId": host, "policyId": policy, "valueFrom": value_from},
    }
    answer = await admin.post("/host-keys", json=sent)
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "plugin_failed")
    assert "'box'" in answer.text
    assert "s3cret" not in answer.text + caplog.text


async def test_a_benched_key_is_reset_and_shows_its_state(
    admin: httpx.AsyncClient, catalog: Any
) -> None:
    key = await catalog.host_key(kind="variable", variable="ACME_KEY")
    url = f"/host-keys/by-id/{key['metadata']['id']}"
    assert (await admin.get(f"{url}/status")).json() == {"status": {"state": "benched"}}
    assert (await admin.post(f"{url}/reset")).json() == {"status": {"state": "ready"}}
    for path in (f"/host-keys/by-id/{new_id()}/reset", "/host-keys/by-id/acme/reset"):
        assert (await admin.post(path)).status_code == 404
