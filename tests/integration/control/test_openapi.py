from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from relay_gateway.catalog.kinds import PLURALS
from relay_gateway.catalog.sections import SECTIONS
from relay_gateway.control import ControlServices, Readiness, create_control_app
from relay_gateway.control.naming import class_name
from relay_gateway.control.openapi import Documentation


@pytest.fixture
async def document(admin: httpx.AsyncClient) -> dict[str, Any]:
    found: dict[str, Any] = (await admin.get("/openapi.json")).json()
    return found


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield path, method, operation


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key == "$ref":
                yield item
            else:
                yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def resolve(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    name = schema["$ref"].rsplit("/", 1)[1]
    found: dict[str, Any] = document["components"]["schemas"][name]
    return found


def problems(document: dict[str, Any], schema: dict[str, Any], value: Any) -> list[str]:
    rooted = {**schema, "components": document["components"]}
    return [error.message for error in Draft202012Validator(rooted).iter_errors(value)]


def answer_schema(
    document: dict[str, Any], method: str, path: str, status: int | str
) -> dict[str, Any]:
    answer = document["paths"][path][method]["responses"][str(status)]
    if "$ref" in answer:
        answer = document["components"]["responses"][answer["$ref"].rsplit("/", 1)[1]]
    found: dict[str, Any] = answer["content"]["application/json"]["schema"]
    return found


def body_schema(document: dict[str, Any], method: str, path: str) -> dict[str, Any]:
    body = document["paths"][path][method]["requestBody"]
    found: dict[str, Any] = body["content"]["application/json"]["schema"]
    return found


async def test_every_reference_leads_somewhere_and_ids_are_unique(
    document: dict[str, Any],
) -> None:
    places = {tuple(reference.split("/")[1:]) for reference in references(document)}
    assert all(name in document[first][part] for first, part, name in places)
    assert {part for _, part, _ in places} == {"headers", "responses", "schemas"}
    ids = [operation["operationId"] for _, _, operation in operations(document)]
    assert len(set(ids)) == len(ids) > 60
    assert all(operation["summary"] for _, _, operation in operations(document))


async def test_every_operation_says_who_may_call_it_and_how_it_fails(
    document: dict[str, Any],
) -> None:
    public = {path for path, _, operation in operations(document) if operation["security"] == []}
    assert public == {"/version", "/auth/login", "/healthz", "/readyz"}
    for path, method, operation in operations(document):
        failures = set(operation["responses"]) - {"200", "201", "202"}
        assert failures >= ({"500"} if path in public else {"401", "500", "503"})
        for status in failures - ({"503"} if path == "/readyz" else set()):
            schema = answer_schema(document, method, path, status)
            assert schema["$ref"].endswith("/ErrorAnswer")


async def test_t58_what_carries_a_version_and_what_takes_one_says_so(
    document: dict[str, Any],
) -> None:
    versioned = {
        operation["operationId"]
        for _, _, operation in operations(document)
        for answer in operation["responses"].values()
        if "ETag" in answer.get("headers", {})
    }
    taking = {
        operation["operationId"]
        for _, _, operation in operations(document)
        if any(parameter["name"] == "If-Match" for parameter in operation.get("parameters", ()))
    }
    kinds = [class_name(kind.name) for kind in PLURALS.values()]
    own = {"rotateRelayKey", "revokeRelayKey", "rotateHostKey"}
    verbs = ("get", "create", "replace")
    sections = {f"{verb}{class_name(name)}" for verb in ("get", "put") for name in SECTIONS}
    written = {name for name in sections if name.startswith("put")}
    assert versioned == {f"{verb}{kind}" for verb in verbs for kind in kinds} | own | sections
    replacing = {f"{verb}{kind}" for verb in ("replace", "delete") for kind in kinds}
    assert taking == replacing | own | written


async def test_the_union_of_references_is_that_of_the_installed_backends(
    document: dict[str, Any],
) -> None:
    spec = document["components"]["schemas"]["HostKeySpecInput"]
    union = spec["properties"]["valueFrom"]
    assert set(union["discriminator"]["mapping"]) == {"box", "variable"}
    shown = document["components"]["schemas"]["HostKeySpec"]["properties"]["valueFrom"]
    assert set(shown["discriminator"]["mapping"]) == {"box", "variable"}
    assert not any("ciphertext" in str(schema) for schema in [union, shown])
    assert "ciphertext" not in str(document["components"])


async def test_adapters_and_their_configuration_are_those_that_are_installed(
    document: dict[str, Any],
) -> None:
    properties = document["components"]["schemas"]["HostSpecInput"]["properties"]
    assert properties["adapter"]["enum"] == ["echoes", "plain"]
    names = {reference.rsplit("/", 1)[1] for reference in references(properties["adapterConfig"])}
    assert names == {"EchoesAdapterConfigInput", "PlainAdapterConfigInput"}


@pytest.mark.parametrize("name", ["secret_backends", "providers"])
async def test_a_gateway_without_plugins_still_has_a_document(
    services: ControlServices, admin: httpx.AsyncClient, name: str
) -> None:
    setattr(services, name, {})
    transport = httpx.ASGITransport(create_control_app(services))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.get("/openapi.json", headers=admin.headers)
    assert answer.status_code == 200
    assert "HostKeySpecInput" in answer.json()["components"]["schemas"]


async def test_nobody_waits_while_the_document_is_made_and_it_is_made_once(
    admin: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []
    begun, others_served = threading.Event(), threading.Event()

    def build(_docs: Documentation, _app: object) -> dict[str, Any]:
        begun.set()
        assert others_served.wait(5), "the event loop stood still"
        made.append({"openapi": "3.1.0"})
        return made[-1]

    monkeypatch.setattr(Documentation, "build", build)
    asked = [asyncio.ensure_future(admin.get("/openapi.json")) for _ in range(2)]
    assert await asyncio.to_thread(begun.wait, 5)
    assert (await admin.get("/version")).status_code == 200
    others_served.set()
    assert [one.json() for one in await asyncio.gather(*asked)] == [{"openapi": "3.1.0"}] * 2
    assert len(made) == 1


async def test_bodies_that_are_accepted_and_answers_to_them_follow_the_document(
    admin: httpx.AsyncClient, catalog: Any, document: dict[str, Any]
) -> None:
    host, policy = await catalog.host(), await catalog.policy(rateLimits=[], budgets=[])
    vendor = (await catalog.add("providers"))["metadata"]["id"]
    bodies: dict[str, dict[str, Any]] = {
        "providers": {"icon": "acme"},
        "hosts": {
            "baseUrl": "http://127.0.0.1:9",
            "adapter": "echoes",
            "adapterConfig": {"region": "us"},
            "timeouts": {"total": 5},
        },
        "pricings": {"rates": [{"meter": "tokens.input", "amount": "0.15"}]},
        "models": {"providerId": vendor, "bindings": [{"hostId": host}], "aliases": ["m-*"]},
        "rate-limits": {"rules": [{"meter": "tokens", "amount": 5, "windowSeconds": 60}]},
        "policies": {"models": ["*"], "budgets": [{"amountNanos": 10**9, "window": "day"}]},
        "host-keys": {
            "hostId": host,
            "policyId": policy,
            "valueFrom": {"kind": "box", "value": "x"},
        },
        "relay-keys": {"policyId": policy, "expiresAt": "2030-01-01T00:00:00Z"},
    }
    assert set(bodies) == set(PLURALS)
    for plural, spec in bodies.items():
        sent = {"metadata": {"displayName": plural, "labels": {"a": "b"}}, "spec": spec}
        assert problems(document, body_schema(document, "post", f"/{plural}"), sent) == []
        created = await admin.post(f"/{plural}", json=sent)
        assert created.status_code == 201, created.text
        schema = answer_schema(document, "post", f"/{plural}", 201)
        assert problems(document, schema, created.json()) == []
        entity = created.json().get("relayKey", created.json())
        path = f"/{plural}/by-id/{{id}}"
        assert problems(document, body_schema(document, "put", path), entity) == []
        listed = (await admin.get(f"/{plural}")).json()
        assert problems(document, answer_schema(document, "get", f"/{plural}", 200), listed) == []
        missing: dict[str, Any] = {"metadata": {}, "spec": {}}
        assert problems(document, body_schema(document, "post", f"/{plural}"), missing) != []


async def test_other_answers_follow_the_document(
    admin: httpx.AsyncClient, catalog: Any, document: dict[str, Any], surroundings: Any
) -> None:
    from relay_gateway.plugin import UsageRecord

    record = UsageRecord(request_id="r-1", started_at="2026-01-01T00:00:00Z")
    surroundings.reader.records["r-1"] = record
    await catalog.policy()
    for method, path, url in (
        ("get", "/version", "/version"),
        ("get", "/readyz", "/readyz"),
        ("get", "/auth/whoami", "/auth/whoami"),
        ("get", "/plugins", "/plugins"),
        ("post", "/reload", "/reload"),
        ("get", "/logs", "/logs"),
        ("get", "/logs/{request_id}", "/logs/r-1"),
        ("get", "/usage/summary", "/usage/summary?groupBy=model"),
        ("get", "/policies/{ref}/references", "/policies/acme/references"),
    ):
        answer = await admin.request(method, url)
        assert answer.status_code == 200, answer.text
        assert problems(document, answer_schema(document, method, path, 200), answer.json()) == []
    surroundings.readiness = Readiness(snapshot_loaded=False)
    unready = await admin.get("/readyz")
    schema = answer_schema(document, "get", "/readyz", 503)
    assert problems(document, schema, unready.json()) == []
    refused = await admin.post("/policies", json={})
    schema = answer_schema(document, "post", "/policies", 422)
    assert problems(document, schema, refused.json()) == []
    assert resolve(document, schema)["required"] == ["error"]
