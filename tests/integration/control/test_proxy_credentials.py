"""The credential of a host's egress proxy is checked, sealed and shown as that of a host key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from relay_gateway.storage import CatalogStore

PROXY = "http://127.0.0.1:3128"
ProblemFields = Callable[[httpx.Response], dict[str, str]]


def written(**spec: Any) -> dict[str, Any]:
    fields = {"baseUrl": "https://x.test", "adapter": "echoes", "proxyUrl": PROXY, **spec}
    return {"metadata": {"displayName": "Acme"}, "spec": fields}


async def made(admin: httpx.AsyncClient, **spec: Any) -> dict[str, Any]:
    answer = await admin.post("/hosts", json=written(**spec))
    assert answer.status_code == 201, answer.text
    host: dict[str, Any] = answer.json()
    return host


async def replaced(admin: httpx.AsyncClient, host: dict[str, Any]) -> httpx.Response:
    host["metadata"].pop("version", None)
    return await admin.put(f"/hosts/by-id/{host['metadata']['id']}?confirmRebind=true", json=host)


async def sealed(store: CatalogStore, host: dict[str, Any]) -> dict[str, Any]:
    return (await store.get("host", host["metadata"]["id"])).sealed


async def test_t60_a_proxy_credential_is_sealed_to_its_host_and_never_shown(
    admin: httpx.AsyncClient, store: CatalogStore
) -> None:
    host = await made(admin, proxyCredential={"kind": "box", "value": "relay:hunter2"})
    assert host["spec"]["proxyCredential"] == {"kind": "box", "label": "kept"}
    kept = await sealed(store, host)
    place = f"host/{host['metadata']['id']}/spec.proxyCredential/1"
    assert kept["proxyCredential"]["ciphertext"] == f"2retnuh:yaler@{place}"
    for path in ("/hosts", f"/hosts/{host['metadata']['id']}", "/audit"):
        text = (await admin.get(path)).text
        assert "hunter2" not in text
        assert "2retnuh" not in text


async def test_t61_what_was_read_keeps_the_value_and_each_new_one_has_the_next_generation(
    admin: httpx.AsyncClient, store: CatalogStore
) -> None:
    host = await made(admin, proxyCredential={"kind": "box", "value": "a:1"})
    first = await sealed(store, host)
    host["spec"]["proxyCredential"] = {"kind": "box"}
    assert (await replaced(admin, host)).status_code == 200
    assert await sealed(store, host) == first
    host["spec"]["proxyCredential"] = {"kind": "box", "value": "a:2"}
    assert (await replaced(admin, host)).status_code == 200
    assert (await sealed(store, host))["generation"] == 2
    del host["spec"]["proxyCredential"]
    assert (await replaced(admin, host)).json()["spec"]["proxyCredential"] is None
    assert await sealed(store, host) == {"generation": 2}
    host["spec"]["proxyCredential"] = {"kind": "box", "value": "a:3"}
    assert (await replaced(admin, host)).status_code == 200
    assert (await sealed(store, host))["generation"] == 3


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"proxyCredential": {"kind": "vaulted"}}, {"spec.proxyCredential.kind": "unknown_kind"}),
        ({"proxyCredential": {}}, {"spec.proxyCredential.kind": "required"}),
        (
            {"proxyCredential": {"kind": "box"}},
            {"spec.proxyCredential.value": "secret_ref_invalid"},
        ),
        ({"proxyCredential": "relay:hunter2"}, {"spec.proxyCredential": "dict_type"}),
        (
            {"proxyUrl": None, "proxyCredential": {"kind": "box", "value": "relay:hunter2"}},
            {"spec.proxyCredential": "proxy_url_required"},
        ),
        ({"proxyUrl": "http://relay:hunter2@127.0.0.1:3128"}, {"spec.proxyUrl": "value_error"}),
        ({"proxyUrl": "socks5://127.0.0.1:1080"}, {"spec.proxyUrl": "value_error"}),
    ],
)
async def test_a_proxy_that_cannot_be_used_is_refused_without_a_word_of_its_credential(
    admin: httpx.AsyncClient,
    problem_fields: ProblemFields,
    spec: dict[str, Any],
    expected: dict[str, str],
) -> None:
    answer = await admin.post("/hosts", json=written(**spec))
    assert problem_fields(answer) == expected
    assert "hunter2" not in answer.text


async def test_a_login_in_the_address_is_refused_with_the_field_that_takes_it(
    admin: httpx.AsyncClient,
) -> None:
    answer = await admin.post("/hosts", json=written(proxyUrl="http://relay:hunter2@127.0.0.1"))
    (problem,) = answer.json()["error"]["fields"]
    assert "proxyCredential" in problem["message"]
