"""What browsers are told: headers on every answer, origins, host names."""

from __future__ import annotations

from collections.abc import Callable

import httpx
import pytest
from msgspec.structs import replace

from relay_gateway.control import ControlServices, create_control_app
from relay_gateway.ids import new_id

ADMIN_TOKEN = "admin-token-3f9c"
LISTED = "https://console.example.org"
EXPECTED = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}


def client_of(services: ControlServices) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(create_control_app(services))
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers)


async def test_t49_every_route_answers_with_every_header(
    admin: httpx.AsyncClient, anonymous: httpx.AsyncClient
) -> None:
    document = (await admin.get("/openapi.json")).json()
    seen = set()
    for path, item in document["paths"].items():
        url = path.replace("{id}", new_id()).replace("{ref}", "x").replace("{request_id}", "x")
        for method in (*item, "patch", "options"):
            answer = await admin.request(method, url)
            shown = {name: answer.headers.get(name) for name in EXPECTED}
            assert shown == EXPECTED, (method, path)
            assert "server" not in answer.headers
            seen.add(answer.headers["x-relay-request-id"])
    assert len(seen) > 200


async def test_t44_without_a_list_no_origin_is_answered(admin: httpx.AsyncClient) -> None:
    answer = await admin.get("/version", headers={"Origin": LISTED})
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "origin",
    ["null", "https://console.example.org.evil", "https://console.example.org:444",
     "http://console.example.org", "https://CONSOLE.example.org", "*", ""],
)  # fmt: skip
async def test_t44_only_listed_origins_are_answered_and_never_reflected(
    services: ControlServices, origin: str
) -> None:
    services.access = replace(services.access, cors_origins=frozenset({LISTED}))
    async with client_of(services) as client:
        listed = await client.get("/providers", headers={"Origin": LISTED})
        other = await client.get("/providers", headers={"Origin": origin})
        preflight = await client.options(
            "/providers", headers={"Origin": origin, "Access-Control-Request-Method": "POST"}
        )
    assert listed.headers["access-control-allow-origin"] == LISTED
    for answer in (other, preflight):
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert {answer.headers["vary"] for answer in (listed, other, preflight)} == {"Origin"}


async def test_a_page_of_a_listed_origin_is_told_what_it_may_send(
    services: ControlServices,
) -> None:
    services.access = replace(services.access, cors_origins=frozenset({LISTED}))
    transport = httpx.ASGITransport(create_control_app(services))
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        answer = await client.options(
            "/providers", headers={"Origin": LISTED, "Access-Control-Request-Method": "PUT"}
        )
        refused = await client.get("/providers", headers={"Origin": LISTED})
    assert answer.status_code == 204
    assert "PUT" in answer.headers["access-control-allow-methods"]
    assert "If-Match" in answer.headers["access-control-allow-headers"]
    assert answer.headers["access-control-allow-credentials"] == "true"
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == LISTED


@pytest.mark.parametrize(
    ("allowed", "accepts"),
    [
        (None, lambda host: True),
        ((), lambda host: host != "rebound.example.org"),
        (("gw.example.org",), lambda host: host == "gw.example.org:81"),
        (("*",), lambda host: True),
    ],
)
async def test_host_names_that_are_not_ours_are_421(
    services: ControlServices, allowed: tuple[str, ...] | None, accepts: Callable[[str], bool]
) -> None:
    services.access = replace(services.access, allowed_hosts=allowed)
    hosts = ["127.0.0.1:8081", "localhost", "rebound.example.org"]
    if allowed:
        hosts.append("gw.example.org:81")
    async with client_of(services) as client:
        for host in hosts:
            answer = await client.get("/providers", headers={"Host": host})
            assert answer.status_code == (200 if accepts(host) else 421), host
            probe = await client.get("/healthz", headers={"Host": host})
            assert probe.status_code == 200
