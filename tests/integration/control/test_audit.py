"""``GET /audit`` over the API."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator


@pytest.fixture
async def written(admin: httpx.AsyncClient, catalog: Any) -> list[str]:
    """Ids of three providers, in order of creation."""
    made = [await catalog.add("providers", f"Acme {number}") for number in range(3)]
    return [item["metadata"]["id"] for item in made]


async def test_pages_lead_back_to_the_first_record(
    admin: httpx.AsyncClient, written: list[str]
) -> None:
    targets: list[str] = []
    parameters: dict[str, Any] = {"limit": 2}
    for _ in range(2):
        page = (await admin.get("/audit", params=parameters)).json()
        targets += [item["target"] for item in page["items"]]
        parameters["cursor"] = page.get("nextCursor")
    assert parameters["cursor"] is None
    assert targets == written[::-1]


async def test_filters_narrow_and_records_name_the_request(
    admin: httpx.AsyncClient, written: list[str]
) -> None:
    answer = await admin.delete(f"/providers/by-id/{written[1]}")
    request_id = answer.headers["x-relay-request-id"]
    for parameters in (
        {"action": "delete"},
        {"requestId": request_id},
        {"target": written[1], "action": "delete", "actor": "admin", "method": "admin-token"},
        {"kind": "provider", "slug": "acme-1", "action": "delete"},
    ):
        (found,) = (await admin.get("/audit", params=parameters)).json()["items"]
        assert found["before"]["displayName"] == "Acme 1"
        assert found["requestId"] == request_id
    assert (await admin.get("/audit", params={"actor": "nobody"})).json() == {"items": []}
    moment = found["occurredAt"]
    assert len((await admin.get("/audit", params={"to": moment})).json()["items"]) == 3
    assert len((await admin.get("/audit", params={"from": moment})).json()["items"]) == 1


@pytest.mark.parametrize(
    "query", ["cursor=x", "cursor=-1", "limit=0", "limit=1001", "from=now", "who=x", "actor=%00"]
)
async def test_bad_parameters_are_400(admin: httpx.AsyncClient, query: str) -> None:
    assert (await admin.get(f"/audit?{query}")).status_code == 400


async def test_records_follow_the_document(admin: httpx.AsyncClient, written: list[str]) -> None:
    document = (await admin.get("/openapi.json")).json()
    schema = {"$ref": "#/components/schemas/AuditList", "components": document["components"]}
    body = (await admin.get("/audit")).json()
    assert not list(Draft202012Validator(schema).iter_errors(body))


async def test_nothing_can_be_written_to_the_log(admin: httpx.AsyncClient) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert (await admin.request(method, "/audit")).status_code == 405


async def test_the_chain_can_be_verified(admin: httpx.AsyncClient, written: list[str]) -> None:
    report = (await admin.get("/audit/verify")).json()
    assert report["intact"] is True
    assert report["records"] >= len(written)
    assert report["pruned"] == 0
