from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from relay_gateway.control import ControlServices
from relay_gateway.ids import new_id
from relay_gateway.storage.audit import AuditQuery

ProblemFields = Callable[[httpx.Response], dict[str, str]]


def host(**spec: Any) -> dict[str, Any]:
    fields = {"baseUrl": "http://127.0.0.1:9", "adapter": "echoes", **spec}
    return {"metadata": {"displayName": "H"}, "spec": fields}


async def test_an_adapter_that_is_not_installed_is_refused_with_those_that_are(
    admin: httpx.AsyncClient, problem_fields: ProblemFields
) -> None:
    answer = await admin.post("/hosts", json=host(adapter="acme", baseUrl="ftp://x"))
    assert problem_fields(answer) == {
        "spec.adapter": "unknown_adapter",
        "spec.baseUrl": "value_error",
    }
    assert "installed: echoes, plain" in answer.text


async def test_adapter_config_is_validated_and_completed_by_its_adapter(
    admin: httpx.AsyncClient, problem_fields: ProblemFields
) -> None:
    created = await admin.post("/hosts", json=host(adapterConfig={"latencyMs": 5}))
    assert created.json()["spec"]["adapterConfig"] == {"latencyMs": 5, "region": "eu"}
    wrong = host(adapterConfig={"latencyMs": "5", "region": "mars", "x": 1})
    assert problem_fields(await admin.post("/hosts", json=wrong)) == {
        "spec.adapterConfig.latencyMs": "int_type",
        "spec.adapterConfig.region": "literal_error",
        "spec.adapterConfig.x": "unknown_field",
    }
    other = host(adapter="plain", adapterConfig={"latencyMs": 5})
    assert problem_fields(await admin.post("/hosts", json=other)) == {
        "spec.adapterConfig.latencyMs": "unknown_field"
    }


async def test_wire_formats_are_those_of_the_adapter(
    admin: httpx.AsyncClient, problem_fields: ProblemFields
) -> None:
    answer = await admin.post("/hosts", json=host(wireFormats=["acme.chat", "plain.chat"]))
    assert problem_fields(answer) == {"spec.wireFormats[1]": "unknown_wire_format"}
    assert "acme.chat, acme.embeddings" in answer.text


async def test_the_wire_formats_of_a_binding_are_those_of_its_host(
    admin: httpx.AsyncClient, catalog: Any, problem_fields: ProblemFields
) -> None:
    narrow = await catalog.host(wireFormats=["acme.chat"])
    wide = await catalog.host()
    vendor = (await catalog.add("providers"))["metadata"]["id"]
    bindings = [
        {"hostId": narrow, "wireFormats": ["acme.embeddings"]},
        {"hostId": wide, "wireFormats": ["acme.embeddings", "x"]},
        {"hostId": 1, "wireFormats": ["x"]},
        {"hostId": new_id(), "wireFormats": ["x"]},
    ]
    sent = {"metadata": {"displayName": "M"}, "spec": {"providerId": vendor, "bindings": bindings}}
    assert problem_fields(await admin.post("/models", json=sent)) == {
        "spec.bindings[0].wireFormats[0]": "unknown_wire_format",
        "spec.bindings[1].wireFormats[1]": "unknown_wire_format",
        "spec.bindings[2].hostId": "string_type",
        "spec.bindings[3].hostId": "reference_not_found",
    }


@pytest.mark.parametrize(
    "url",
    [
        "ftp://127.0.0.1",
        "http://",
        "http://user:pw@127.0.0.1",
        "http://127.0.0.1?x=1",
        "http://127.0.0.1#x",
        "http://127.0.0.1:0",
        "http://127.0.0.1:99999",
        "http://127.0.0.1/a b",
        "http://127.0.0.1\\@x",
        "//127.0.0.1",
        "unix:/tmp/x",
        "",
    ],
)
async def test_t03_t06_an_address_that_is_no_plain_http_url_is_refused(
    admin: httpx.AsyncClient, problem_fields: ProblemFields, url: str
) -> None:
    assert problem_fields(await admin.post("/hosts", json=host(baseUrl=url))) == {
        "spec.baseUrl": "value_error"
    }


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "x"},
        {"transfer-encoding": "chunked"},
        {"Authorization": "Bearer x"},
        {"a b": "x"},
        {"x": "a\r\nb: c"},
        {"x": " padded"},
        {"X-A": "1", "x-a": "2"},
    ],
)
async def test_static_headers_cannot_touch_framing_or_credentials(
    admin: httpx.AsyncClient, problem_fields: ProblemFields, headers: dict[str, str]
) -> None:
    problems = problem_fields(await admin.post("/hosts", json=host(headers=headers)))
    assert all(field.startswith("spec.headers") for field in problems)


async def test_certificate_checks_cannot_be_turned_off(
    admin: httpx.AsyncClient, problem_fields: ProblemFields
) -> None:
    answer = await admin.post("/hosts", json=host(tls={"verify": False}))
    assert problem_fields(answer) == {"spec.tls.verify": "literal_error"}


@pytest.mark.parametrize(
    ("grant", "accepted"),
    [
        ("*", True),
        ("acme", True),
        ("acme/big-1.5", True),
        ("acme/org/big", True),
        ("@host-1", True),
        ("acme@host-1", True),
        ("acme/big@host-1", True),
        ("acme/*", False),
        ("a*", False),
        ("@", False),
        ("acme@Not A Host", False),
        ("/big", False),
        ("acme/", False),
        ("", False),
        ("a b", False),
    ],
)
async def test_grants_are_references_and_nothing_else(
    admin: httpx.AsyncClient, problem_fields: ProblemFields, grant: str, *, accepted: bool
) -> None:
    sent = {"metadata": {"displayName": "P"}, "spec": {"deny": [grant]}}
    answer = await admin.post("/policies", json=sent)
    if accepted:
        assert answer.status_code == 201
    else:
        assert set(problem_fields(answer)) == {"spec.deny[0]"}


async def test_names_that_are_taken_are_named_by_field(
    admin: httpx.AsyncClient, catalog: Any, problem_fields: ProblemFields
) -> None:
    vendor = (await catalog.add("providers"))["metadata"]["id"]
    await catalog.add("models", "big", providerId=vendor, aliases=["large"])
    sent = {
        "metadata": {"displayName": "other"},
        "spec": {"providerId": vendor, "name": "large", "aliases": ["big"]},
    }
    assert problem_fields(await admin.post("/models", json=sent)) == {
        "spec.name": "name_taken",
        "spec.aliases[0]": "name_taken",
    }


@pytest.mark.parametrize(
    "rule",
    [
        {"meter": "requests", "amount": 1},
        {"meter": "concurrency", "amount": 1, "windowSeconds": 5},
        {"meter": "requests", "amount": 1, "windowSeconds": 5, "strategy": "concurrency"},
        {"meter": "concurrency", "amount": 1, "strategy": "token-bucket"},
        {"meter": "wishes", "amount": 1, "windowSeconds": 5},
        {"meter": "requests", "amount": 0, "windowSeconds": 5},
        {"meter": "requests", "amount": True, "windowSeconds": 5},
    ],
)
async def test_limit_rules_that_cannot_be_kept_are_refused(
    admin: httpx.AsyncClient, problem_fields: ProblemFields, rule: dict[str, Any]
) -> None:
    sent = {"metadata": {"displayName": "L"}, "spec": {"rules": [rule]}}
    problems = problem_fields(await admin.post("/rate-limits", json=sent))
    assert all(field.startswith("spec.rules[0]") for field in problems)


async def rebind(
    admin: httpx.AsyncClient, plural: str, entity: dict[str, Any], query: str = "", **spec: Any
) -> httpx.Response:
    current = (await admin.get(f"/{plural}/{entity['metadata']['id']}")).json()
    changed = {**current, "spec": {**current["spec"], **spec}}
    changed.pop("status", None)
    return await admin.put(f"/{plural}/by-id/{entity['metadata']['id']}{query}", json=changed)


@pytest.mark.parametrize(
    "change",
    [{"baseUrl": "http://127.0.0.2:9"}, {"proxyUrl": "http://127.0.0.1:3128"},
     {"tls": {"caFile": "/etc/ca.pem", "verify": True}}],
)  # fmt: skip
async def test_t08_a_host_with_keys_is_moved_only_when_that_is_confirmed(
    admin: httpx.AsyncClient, catalog: Any, services: ControlServices, change: dict[str, Any]
) -> None:
    key = await catalog.host_key(kind="box", value="s3cret")
    host = (await admin.get(f"/hosts/{key['spec']['hostId']}")).json()
    for query in ("", "?dryRun=true", "?confirmRebind=false"):
        refused = await rebind(admin, "hosts", host, query, **change)
        assert refused.status_code == 409, refused.text
        error = refused.json()["error"]
        assert error["code"] == "rebind_not_confirmed"
        assert "confirmRebind=true" in error["message"]
        assert [(one["kind"], one["id"]) for one in error["referrers"]] == [
            ("host key", key["metadata"]["id"])
        ]
    assert (await admin.get(f"/hosts/{host['metadata']['id']}")).json() == host
    confirmed = await rebind(admin, "hosts", host, "?confirmRebind=true", **change)
    assert confirmed.status_code == 200, confirmed.text
    newest, *_ = await services.audit.page(AuditQuery())
    assert newest.detail == {"credentialsRedirectedBy": list(change)}


async def test_t08_what_sends_no_credential_elsewhere_needs_no_confirmation(
    admin: httpx.AsyncClient, catalog: Any
) -> None:
    key = await catalog.host_key(kind="box", value="s3cret")
    host = (await admin.get(f"/hosts/{key['spec']['hostId']}")).json()
    same = await rebind(admin, "hosts", host, baseUrl="http://127.0.0.1:9/v1", maxConnections=3)
    assert same.status_code == 200, same.text
    keyless = await catalog.add("hosts", "Free", baseUrl="http://127.0.0.1:9", adapter="plain")
    moved = await rebind(admin, "hosts", keyless, baseUrl="http://127.0.0.2:9")
    assert moved.status_code == 200, moved.text


async def test_t08_a_key_takes_its_credential_to_another_host_only_when_confirmed(
    admin: httpx.AsyncClient, catalog: Any
) -> None:
    key = await catalog.host_key(kind="box", value="s3cret")
    other = await catalog.host()
    refused = await rebind(admin, "host-keys", key, hostId=other)
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "rebind_not_confirmed")
    fresh = {"kind": "box", "value": "another"}
    assert (await rebind(admin, "host-keys", key, hostId=other, valueFrom=fresh)).status_code == 200
    back = key["spec"]["hostId"]
    confirmed = await rebind(admin, "host-keys", key, "?confirmRebind=true", hostId=back)
    assert confirmed.status_code == 200, confirmed.text


async def test_t08_only_kinds_that_send_credentials_take_the_confirmation(
    admin: httpx.AsyncClient, catalog: Any
) -> None:
    policy = await catalog.add("policies")
    answer = await rebind(admin, "policies", policy, "?confirmRebind=true")
    assert answer.json()["error"]["code"] == "unknown_parameter"
