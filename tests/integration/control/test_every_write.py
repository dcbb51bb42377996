"""What holds for every write: dry runs, keys of idempotency, all wrong fields at once."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from relay_gateway.catalog.kinds import PLURALS
from relay_gateway.ids import new_id

from .documented import SAFE, Op, one_of_each


async def test_every_write_can_be_tried_or_says_why_not(ops: list[Op]) -> None:
    for op in ops:
        if op.method in SAFE:
            continue
        told = "There is no dry run: " in op.raw["description"]
        assert told != ("dryRun" in op.parameters), op.id


async def test_a_dry_run_of_any_write_leaves_no_trace(
    ops: list[Op], admin: httpx.AsyncClient, catalog: Any, surroundings: Any
) -> None:
    entities = await one_of_each(catalog)
    tried = [op for op in ops if "dryRun" in op.parameters and op.id != "rotateMasterKey"]
    before = await traces(admin, ops)
    refreshes = surroundings.refreshes
    for op in tried:
        entity = entities.get(op.path.split("/")[1])
        answer = await admin.request(
            op.method, op.url(entity["metadata"]["id"] if entity else None), **trial(op, entity)
        )
        if not (op.method == "delete" and answer.status_code == 409):
            assert answer.is_success, (op.id, answer.text)
            assert answer.headers["x-relay-dry-run"] == "true", op.id
    assert len(tried) > 30
    assert await traces(admin, ops) == before
    assert surroundings.refreshes == refreshes


def trial(op: Op, entity: dict[str, Any] | None) -> dict[str, Any]:
    """What a dry run of ``op`` sends."""
    request: dict[str, Any] = {"params": {"dryRun": "true"}}
    if not op.takes_body:
        return request
    if entity is None:
        return {**request, "json": {}}
    spec = {k: v for k, v in entity["spec"].items() if k not in ("prefix", "revokedAt")}
    if op.id.startswith("create"):
        if "name" in spec:
            spec["name"] = "another"
        return {**request, "json": {"metadata": {"displayName": "tried"}, "spec": spec}}
    if op.id == "rotateHostKey":
        return {**request, "json": {"valueFrom": {"kind": "variable", "variable": "OTHER"}}}
    return {**request, "json": {} if op.id == "rotateRelayKey" else entity}


async def traces(admin: httpx.AsyncClient, ops: list[Op]) -> dict[str, Any]:
    """Everything that a write could have changed."""
    urls = [f"/{plural}" for plural in PLURALS]
    urls += ["/audit", "/settings", *(op.url() for op in ops if op.path.endswith("/history"))]
    return {url: (await admin.get(url)).json() for url in urls}


@pytest.mark.parametrize("plural", PLURALS)
async def test_t57_a_create_of_any_kind_is_made_once_for_one_key(
    admin: httpx.AsyncClient, catalog: Any, plural: str
) -> None:
    entity = (await one_of_each(catalog))[plural]
    spec = {k: v for k, v in entity["spec"].items() if k not in ("prefix", "revokedAt")}
    if "name" in spec:
        spec["name"] = "another"
    body = {"metadata": {"displayName": "once"}, "spec": spec}
    headers = {"Idempotency-Key": f"key-of-{plural}"}
    first = await admin.post(f"/{plural}", json=body, headers=headers)
    again = await admin.post(f"/{plural}", json=body, headers=headers)
    assert (first.status_code, again.status_code) == (201, 201), first.text
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    made = dict(first.json())
    assert ("plaintext" in made) == (plural == "relay-keys")
    made.pop("plaintext", None)
    assert again.json() == made
    found = (await admin.get(f"/{plural}", params={"displayName": "once"})).json()
    assert found["total"] == 1


@pytest.mark.parametrize("plural", PLURALS)
async def test_t54_every_offending_field_of_any_kind_is_named_at_once(
    admin: httpx.AsyncClient, document: dict[str, Any], plural: str, problem_fields: Any
) -> None:
    """Every field has a value of a type that none takes; what is the server's is sent as well."""
    body = document["paths"][f"/{plural}"]["post"]["requestBody"]["content"]["application/json"]
    schemas = document["components"]["schemas"]
    create = schemas[body["schema"]["$ref"].rsplit("/", 1)[1]]
    spec = schemas[create["properties"]["spec"]["$ref"].rsplit("/", 1)[1]]
    wrong: dict[str, Any] = {name: [[[]]] for name in spec["properties"]}
    owned = {"id": new_id(), "version": 1, "managedBy": "api", "createdAt": "x", "updatedAt": "x"}
    sent = {
        "metadata": {"displayName": 5, "slug": "Not A Slug", "labels": [], **owned},
        "spec": {**wrong, "nonsense": 1},
        "status": {},
    }
    found = problem_fields(await admin.post(f"/{plural}", json=sent))
    named = {re.split(r"[\[]", field)[0] for field in found}
    expected = {f"spec.{name}" for name in (*wrong, "nonsense")} | {
        f"metadata.{name}" for name in ("displayName", "slug", "labels", *owned)
    }
    assert expected | {"status"} <= {".".join(name.split(".")[:2]) for name in named}
    for name in owned:
        assert found[f"metadata.{name}"] == "read_only"
