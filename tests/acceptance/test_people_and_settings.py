"""People who log in, settings that take effect, and two planes that do not know each other."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

import httpx

from relay_gateway.ids import new_id
from relay_gateway.registry import Registry
from relay_gateway.secret import Secret
from relay_gateway.security.passwords import hash_password
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.scenario import Scenario, running_scenario
from relay_gateway.testing.script import Script, json_response

SECOND = 1.0


def over_quota(_: SeenRequest) -> Script:
    return json_response(422, {"error": {"message": "account 4711 is over quota", "type": "x"}})


async def granted(scenario: Scenario) -> str:
    """A relay key for the model ``m``."""
    vendor = await scenario.create("providers", "Acme")
    host = await scenario.create(
        "hosts", "Acme host", baseUrl=scenario.upstream.url, adapter="openai", noAuth=True
    )
    bindings = [{"hostId": host}]
    await scenario.create("models", "m", name="m", providerId=vendor, bindings=bindings)
    return await scenario.relay_key("app", await scenario.create("policies", "p", models=["*"]))


async def test_a_setting_takes_effect_within_a_second_and_without_a_restart(
    tmp_path: Path,
) -> None:
    body = {"model": "m", "messages": []}
    async with running_scenario(tmp_path, over_quota) as scenario:
        key = await granted(scenario)
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=scenario.gateway.inference_url) as caller:
            exposed = await caller.post("/v1/chat/completions", json=body, headers=headers)
            changed = await scenario.admin.put(
                "/settings/inference", json={"exposeUpstreamErrors": False}
            )
            assert changed.status_code == 200
            loop = asyncio.get_running_loop()
            deadline = loop.time() + SECOND
            while True:
                hidden = await caller.post("/v1/chat/completions", json=body, headers=headers)
                if "4711" not in hidden.text or loop.time() > deadline:
                    break
            proxy = {**headers, "X-SVC-Proxy-Mode": "Proxy"}
            off = await caller.post("/v1/chat/completions", json=body, headers=proxy)
    assert "4711" in exposed.text
    assert (exposed.status_code, hidden.status_code) == (422, 422)
    assert "4711" not in hidden.text
    assert hidden.json()["error"]["code"] == "upstream_error"
    assert (off.status_code, off.json()["error"]["code"]) == (403, "proxy_mode_disabled")


async def test_somebody_logs_in_writes_and_is_found_in_the_audit_log(tmp_path: Path) -> None:
    password = secrets.token_hex(20)
    environ = {"RELAY_ADMIN_PASSWORD": hash_password(Secret(password), 4)}
    async with running_scenario(tmp_path, over_quota, environ) as scenario:
        origin = str(scenario.admin.base_url).rstrip("/")
        async with httpx.AsyncClient(base_url=origin, headers={"Origin": origin}) as browser:
            body = {"username": "admin", "password": password}
            assert (await browser.post("/auth/login", json=body)).status_code == 200
            assert (await browser.get("/auth/whoami")).json()["method"] == "session"
            entity = {"metadata": {"displayName": "Acme"}, "spec": {}}
            assert (await browser.post("/providers", json=entity)).status_code == 201
            (found,) = (await browser.get("/audit?method=session")).json()["items"]
    assert (found["actor"], found["action"], found["address"]) == ("admin", "create", "127.0.0.1")


async def test_t55_no_route_of_one_plane_is_on_the_other(tmp_path: Path) -> None:
    async with running_scenario(tmp_path, over_quota) as scenario:
        document = (await scenario.admin.get("/openapi.json")).json()
        headers = dict(scenario.admin.headers)
        async with httpx.AsyncClient(base_url=scenario.gateway.inference_url) as caller:
            for path, item in document["paths"].items():
                if path in ("/healthz", "/readyz"):
                    continue
                url = path.replace("{id}", new_id()).replace("{ref}", "x")
                for method in item:
                    answer = await caller.request(method, url, headers=headers)
                    assert answer.status_code == 404, (method, path)
        served = inference_routes(tmp_path)
        assert len(served) > 5
        for method, url in {*served, ("GET", "/v1/models")}:
            assert (await scenario.admin.request(method, url)).status_code == 404


def inference_routes(directory: Path) -> set[tuple[str, str]]:
    """Every endpoint of the installed providers."""
    plugins = Registry.discover().configure({}, lambda name: plugin_context(directory, plugin=name))
    formats = plugins.wire_formats.values()
    return {(one.method, one.path) for wire in formats for one in wire.endpoints}
