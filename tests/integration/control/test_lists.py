"""List parameters over HTTP: every field of every kind, and refusals that name the parameter."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from relay_gateway.catalog.fields import list_fields
from relay_gateway.catalog.kinds import PLURALS


async def slugs(admin: httpx.AsyncClient, url: str, **params: Any) -> list[str]:
    answer = await admin.get(url, params=params)
    assert answer.status_code == 200, answer.text
    return [item["metadata"]["slug"] for item in answer.json()["items"]]


EXAMPLES = {
    "text": "x",
    "number": "1",
    "flag": "true",
    "instant": "2030-01-31T00:00:00+01:00",
    "reference": "some-slug",
}


@pytest.mark.parametrize("plural", PLURALS)
async def test_every_field_of_a_kind_filters_and_sorts_and_is_documented(
    admin: httpx.AsyncClient, plural: str
) -> None:
    document = (await admin.get("/openapi.json")).json()
    operation = document["paths"][f"/{plural}"]["get"]
    documented = {parameter["name"] for parameter in operation["parameters"]}
    (sort,) = (item for item in operation["parameters"] if item["name"] == "sort")
    orders = set(sort["schema"]["enum"])
    fields = list_fields(PLURALS[plural])
    assert documented == {"limit", "cursor", "sort", "q", "label", *fields}
    for name, field in fields.items():
        assert await slugs(admin, f"/{plural}", **{name: EXAMPLES[field.type]}) == []
        if field.sortable:
            assert {name, f"-{name}"} <= orders
            assert await slugs(admin, f"/{plural}", sort=f"-{name}") == []


async def test_filters_search_labels_and_order_work_together(
    admin: httpx.AsyncClient, catalog: Any
) -> None:
    host, other = await catalog.host(maxConnections=7), await catalog.host(proxyMode=False)
    vendor = (await catalog.add("providers"))["metadata"]["id"]
    for number in range(5):
        sent = {
            "metadata": {"displayName": f"Model {number}", "labels": {"n": str(number % 2)}},
            "spec": {
                "providerId": vendor,
                "contextWindow": 100 - number,
                "bindings": [{"hostId": (host, other)[number % 2]}],
            },
        }
        assert (await admin.post("/models", json=sent)).status_code == 201
    assert await slugs(admin, "/models", hostId="acme", sort="contextWindow") == [
        "model-4",
        "model-2",
        "model-0",
    ]
    assert await slugs(admin, "/models", hostId=[host, other], q="MODEL 3") == ["model-3"]
    assert await slugs(admin, "/models", label=["n=1"], sort="-slug", enabled="true") == [
        "model-3",
        "model-1",
    ]
    assert await slugs(admin, "/models", label=["n=1", "n=0"]) == []
    assert await slugs(admin, "/models", contextWindow="98") == ["model-2"]
    assert await slugs(admin, "/models", maxOutputTokens="", name="model-0") == ["model-0"]
    assert await slugs(admin, "/hosts", maxConnections=["7", "8"]) == ["acme"]
    assert await slugs(admin, "/hosts", proxyMode="false") == ["acme-2"]
    page = (await admin.get("/models?sort=-contextWindow&limit=2&hostId=acme")).json()
    assert page["total"] == 3
    following = {"sort": "-contextWindow", "hostId": "acme", "cursor": page["nextCursor"]}
    assert await slugs(admin, "/models", **following) == ["model-4"]


async def test_keys_that_are_not_revoked_can_be_listed(
    admin: httpx.AsyncClient, catalog: Any
) -> None:
    key = (await catalog.relay_key(expiresAt="2030-01-01T00:00:00.25Z"))["relayKey"]["metadata"]
    assert await slugs(admin, "/relay-keys", revokedAt="") == ["acme"]
    assert await slugs(admin, "/relay-keys", expiresAt="2030-01-01T01:00:00.25+01:00") == ["acme"]
    revoked = await admin.post(f"/relay-keys/by-id/{key['id']}/revoke")
    assert await slugs(admin, "/relay-keys", revokedAt="") == []
    moment = revoked.json()["spec"]["revokedAt"]
    assert await slugs(admin, "/relay-keys", revokedAt=moment) == ["acme"]
    assert await slugs(admin, "/relay-keys", createdAt=revoked.json()["metadata"]["createdAt"])


async def test_host_keys_are_found_by_the_kind_of_their_reference(
    admin: httpx.AsyncClient, catalog: Any
) -> None:
    await catalog.host_key(kind="box", value="s3cret-value")
    assert await slugs(admin, "/host-keys", **{"valueFrom.kind": "box"}) == ["acme"]
    assert await slugs(admin, "/host-keys", **{"valueFrom.kind": "env"}) == []
    assert await slugs(admin, "/host-keys", q="s3cret") == []


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("enabled", "yes"),
        ("enabled", ""),
        ("maxConnections", "many"),
        ("maxConnections", "nan"),
        ("maxConnections", "1e999"),
        ("maxConnections", "1_0"),
        ("version", ""),
        ("createdAt", "yesterday"),
        ("createdAt", "1700000000"),
        ("createdAt", "2030-01-31T00:00:00"),
        ("createdAt", "0001-01-01T00:00:00+23:00"),
        ("adapter", "a\0b"),
        ("adapter", "x" * 5000),
        ("q", "\0"),
        ("q", "x" * 201),
        ("label", "team"),
        ("label", "=x"),
        ("sort", "colour"),
        ("sort", "--slug"),
        ("sort", ""),
        ("sort", "description"),
        ("cursor", "AAAA"),
        ("cursor", "x" * 9000),
        ("limit", "0"),
    ],
)
async def test_a_parameter_that_cannot_be_read_is_refused_by_name(
    admin: httpx.AsyncClient, name: str, value: str
) -> None:
    answer = await admin.get("/hosts", params={name: value})
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_parameter")
    assert answer.json()["error"]["message"].startswith(f"{name}: ")


async def test_other_parameters_are_refused_with_those_there_are(
    admin: httpx.AsyncClient,
) -> None:
    for query in ("hostid=x", "spec.adapter=x", "hostId=x", "timeouts=5", "headers=x"):
        answer = await admin.get(f"/hosts?{query}")
        error = answer.json()["error"]
        assert (answer.status_code, error["code"]) == (400, "unknown_parameter")
        for known in (query.partition("=")[0], "adapter", "timeouts.idle", "label", "sort"):
            assert known in error["message"]


async def test_too_many_values_and_labels_are_refused(admin: httpx.AsyncClient) -> None:
    for name, value in (("slug", "a"), ("label", "a=b")):
        fits = await admin.get("/hosts", params={name: [value] * 32})
        assert fits.status_code == 200
        answer = await admin.get("/hosts", params={name: [value] * 33})
        assert answer.status_code == 400
        assert answer.json()["error"]["message"].startswith(f"{name}: ")


async def test_references_in_no_possible_form_are_refused(admin: httpx.AsyncClient) -> None:
    answer = await admin.get("/models?hostId=Not+A+Slug")
    assert "hostId: must be the id or slug of a host" in answer.json()["error"]["message"]
