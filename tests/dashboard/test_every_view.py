"""Every view as it is seen: no violation that axe knows of in light, dark or narrow, and
pictures."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from relay_gateway.testing.dashboard import Dashboard, operator_at
from relay_gateway.testing.process import GatewayProcess

from .pictures import LOOKS, photograph

AXE = "axe-core@4.10.3"
EVERY_RULE = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RULES = {
    "light": EVERY_RULE,
    "dark": ["color-contrast"],
    "narrow": ["target-size", "color-contrast"],
}
"""All of them once; of the others what colours and room can change."""
VIEWS = {
    "overview": "/",
    "logs": "/logs",
    "request": "/logs/{request}",
    "explain": "/explain?model=echo&relayKeyId={key}",
    "users": "/explain?model=echo",
    "relay-keys": "/relay-keys",
    "relay-key": "/relay-keys/{key}",
    "policies": "/policies",
    "policy": "/policies/{policy}",
    "models": "/models",
    "model": "/models/echo",
    "hosts": "/hosts",
    "host": "/hosts/echo",
    "host-keys": "/host-keys",
    "host-key": "/host-keys/acme-key",
    "providers": "/providers",
    "pricings": "/pricings",
    "rate-limits": "/rate-limits",
    "plugins": "/plugins",
    "settings": "/settings",
    "audit": "/audit",
    "master-key": "/master-key",
    "first-steps": "/first-steps",
    "nowhere": "/nowhere",
}


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory = tmp_path_factory.mktemp("axe")
    command = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", AXE]
    subprocess.run(command, cwd=directory, check=True, capture_output=True, timeout=120)
    return (directory / "node_modules/axe-core/axe.min.js").read_text("utf-8")


async def post(admin: httpx.AsyncClient, plural: str, name: str, spec: dict[str, Any]) -> Any:
    answer = await admin.post(f"/{plural}", json={"metadata": {"displayName": name}, "spec": spec})
    assert answer.status_code == 201, answer.text
    return answer.json()


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def furnished(gateway: GatewayProcess, admin: httpx.AsyncClient) -> dict[str, str]:
    """A gateway that has been used: ids by the names in the addresses of ``VIEWS``."""
    await admin.put("/settings/payload-logging", json={"enabled": True, "loggers": ["database"]})
    prices = {
        "rates": [
            {"meter": "tokens.input", "amount": "3"},
            {"meter": "tokens.output", "amount": "15"},
        ]
    }
    pricing = (await post(admin, "pricings", "Echo prices", prices))["metadata"]["id"]
    echo = (await admin.get("/models/echo")).json()
    spec = echo["spec"]
    spec["bindings"][0]["pricingId"] = pricing
    await admin.put(
        f"/models/by-id/{echo['metadata']['id']}",
        json={"metadata": {"displayName": "Echo"}, "spec": spec},
    )
    limit = {"rules": [{"meter": "requests", "amount": 600, "windowSeconds": 60}]}
    limit_id = (await post(admin, "rate-limits", "Ten a second", limit))["metadata"]["id"]
    budgets = [
        {
            "amountNanos": 40_000_000,
            "currency": "USD",
            "window": "month",
            "scope": "relay-key",
            "action": "warn",
        },
        {
            "amountNanos": 5_000_000_000,
            "currency": "USD",
            "window": "day",
            "scope": "policy",
            "action": "block",
        },
    ]
    rules = {
        "models": ["*"],
        "deny": ["claude-opus-5"],
        "payloadLogging": True,
        "budgets": budgets,
        "rateLimits": [{"rateLimitId": limit_id}],
    }
    policy = (await post(admin, "policies", "Product teams", rules))["metadata"]["id"]
    host = (await admin.get("/hosts/openai")).json()["metadata"]["id"]
    value = {"kind": "env", "env": "NOT_SET_ANYWHERE"}
    await post(
        admin, "host-keys", "Acme key", {"hostId": host, "policyId": policy, "valueFrom": value}
    )
    found = {}
    for name in ("Checkout assistant", "Search ranking", "Night batch"):
        tags = {"team": name.split(maxsplit=1)[0].lower()}
        made = await post(admin, "relay-keys", name, {"policyId": policy, "tags": tags})
        found["request"] = await use(gateway, made["plaintext"], 8 if name == "Night batch" else 30)
        found["key"] = made["relayKey"]["metadata"]["id"]
    return {**found, "policy": policy}


async def use(gateway: GatewayProcess, key: str, times: int) -> str:
    headers = {"authorization": f"Bearer {key}", "user-agent": "acme-shop/2.1"}
    async with httpx.AsyncClient(
        base_url=gateway.inference_url, headers=headers, trust_env=False
    ) as client:
        for place in range(times):
            said = "Which of these shoes would you wear on a wet trail, and why?" + " Please." * (
                place * 7
            )
            if place % 11 == 4:
                said = '!echo {"status": 503, "message": "the host is resting"}'
            body = {
                "model": "echo-embeddings" if place == 6 else "echo",
                "stream": place % 2 == 1,
                "messages": [
                    {"role": "system", "content": "You advise runners."},
                    {"role": "user", "content": said},
                ],
            }
            answer = await client.post("/v1/chat/completions", json=body)
    return answer.headers["x-relay-request-id"]


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=LOOKS)
async def looker(
    request: pytest.FixtureRequest, browser: Browser, gateway: GatewayProcess, axe: str
) -> AsyncIterator[tuple[str, Dashboard]]:
    look: str = request.param
    async with operator_at(browser, gateway, **LOOKS[look]) as operator:
        await operator.open("/")
        yield look, operator


@pytest.mark.parametrize("view", VIEWS)
async def test_t50_no_view_has_a_violation(
    looker: tuple[str, Dashboard], furnished: dict[str, str], axe: str, view: str
) -> None:
    look, operator = looker
    await operator.go("/nowhere")
    await operator.go(VIEWS[view].format(**furnished))
    await expect(operator.page.locator("h1").first).to_be_visible()
    await expect(operator.page.locator("main [role=alert]")).to_have_count(0)
    await photograph(operator.page, view, look, full_page=True)
    assert await violations(operator, axe, look) == []
    operator.misdeeds.judge()


async def test_t50_dialogs_and_forms_have_none_either(
    looker: tuple[str, Dashboard], furnished: dict[str, str], axe: str
) -> None:
    look, operator = looker
    page = operator.page
    await operator.open(f"/policies/{furnished['policy']}")
    await operator.fill("Description", "What product teams may use")
    await operator.save()
    await operator.dialog().get_by_role("row").nth(1).wait_for()
    await photograph(operator.page, "diff", look)
    assert await violations(operator, axe, look) == []
    await page.keyboard.press("Escape")
    await page.locator("h1").click()
    for key in "gl":
        await page.keyboard.press(key)
    await expect(operator.dialog()).to_contain_text("Leave without saving?")
    await photograph(operator.page, "leave", look)
    assert await violations(operator, axe, look) == []
    await operator.confirm("Stay here")
    await page.locator("h1").click()
    await page.keyboard.press("?")
    await operator.dialog().wait_for()
    await photograph(operator.page, "shortcuts", look)
    assert await violations(operator, axe, look) == []
    await page.keyboard.press("Escape")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("echo")
    await operator.dialog().get_by_role("option").nth(3).wait_for()
    await photograph(operator.page, "palette", look)
    assert await violations(operator, axe, look) == []
    await page.keyboard.press("Escape")
    await page.context.clear_cookies()
    await page.goto(f"{operator.url}/ui/")
    await page.locator("#login-name").wait_for()
    await photograph(operator.page, "login", look)
    assert await violations(operator, axe, look) == []


async def violations(operator: Dashboard, axe: str, look: str) -> list[str]:
    """What axe finds, as short texts. The page's policy allows no foreign code, so it is put
    in through the debugger, which no policy holds."""
    if not await operator.page.evaluate("'axe' in window"):
        await operator.page.evaluate(axe)
    found = await operator.page.evaluate(
        "(rules) => axe.run(document, { runOnly: rules, resultTypes: ['violations'] })", RULES[look]
    )
    return [
        f"{one['id']}: {node['html'][:160]} {node['failureSummary'][:200]}"
        for one in found["violations"]
        for node in one["nodes"][:3]
    ]
