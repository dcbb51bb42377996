"""Explanations, settings, the audit log, plugins and the master key."""

from __future__ import annotations

import re
from typing import Any

import httpx
from playwright.async_api import expect

from relay_gateway.testing.dashboard import Dashboard


async def relay_key(admin: httpx.AsyncClient, name: str, models: list[str]) -> str:
    policy = await admin.post(
        "/policies",
        json={"metadata": {"displayName": f"{name} policy"}, "spec": {"models": models}},
    )
    spec = {"policyId": policy.json()["metadata"]["id"]}
    made = await admin.post("/relay-keys", json={"metadata": {"displayName": name}, "spec": spec})
    body: dict[str, Any] = made.json()
    return str(body["relayKey"]["metadata"]["id"])


async def test_a_route_a_refusal_and_who_may_use_a_model_are_explained(
    operator: Dashboard, admin: httpx.AsyncClient
) -> None:
    await relay_key(admin, "Granted", ["echo"])
    await relay_key(admin, "Refused", [])
    page = operator.page
    await operator.open("/explain")
    await operator.sees("Ask about a model")
    await page.locator("#ask-model").fill("echo")
    await operator.pick("#ask-key", "Granted")
    await operator.press("Explain")
    await expect(page.locator(".notice.good")).to_be_visible()
    await operator.sees("In the order of trying")
    await operator.pick("#ask-key", "Refused")
    await operator.press("Explain")
    await expect(page.locator(".notice.bad")).to_contain_text("model_not_allowed")
    await expect(page.locator(".steps .bad").first).to_be_visible()
    await page.go_back()
    await expect(page.locator(".notice.good")).to_be_visible()
    await operator.open("/explain?model=echo")
    await operator.sees("Who may use echo")
    await operator.sees("granted-policy")


async def test_settings_change_after_a_look_at_the_difference_and_have_a_history(
    operator: Dashboard, admin: httpx.AsyncClient
) -> None:
    await operator.open("/settings")
    section = operator.page.get_by_role("form", name="Routing")
    await section.get_by_label("Max attempts").fill("5")
    await section.get_by_role("button", name="Save").click()
    await expect(operator.dialog().get_by_role("row").last).to_contain_text("5")
    await operator.confirm("Save")
    await operator.toast("Saved")
    assert (await admin.get("/settings/routing")).json()["maxAttempts"] == 5
    await section.get_by_role("button", name="History").click()
    await expect(operator.dialog()).to_contain_text("admin-token")
    await expect(operator.dialog()).to_contain_text("maxAttempts")
    await operator.confirm("Close")
    await section.get_by_label("Max attempts").fill("0")
    await section.get_by_role("button", name="Save").click()
    await operator.confirm("Save")
    await operator.sees("needs attention")
    await expect(section.get_by_label("Max attempts")).to_have_attribute("aria-invalid", "true")


async def test_the_audit_log_shows_what_was_different_and_verifies_itself(
    operator: Dashboard, admin: httpx.AsyncClient
) -> None:
    body = {"metadata": {"displayName": "Audited"}, "spec": {}}
    made = (await admin.post("/providers", json=body)).json()["metadata"]
    body["metadata"]["description"] = "now with a description"
    await admin.put(f"/providers/by-id/{made['id']}", json=body)
    await operator.open("/audit?slug=audited")
    rows = operator.page.locator("tbody tr")
    await expect(rows).to_have_count(2)
    await rows.first.get_by_role("button", name="Show").click()
    await expect(operator.dialog()).to_contain_text("now with a description")
    await operator.confirm("Close")
    await operator.page.get_by_label("Action", exact=True).fill("create")
    await expect(rows).to_have_count(1)
    await operator.press("Verify the chain")
    await operator.sees("the chain is intact")


async def test_every_plugin_is_listed_with_its_state_and_origin(
    operator: Dashboard, admin: httpx.AsyncClient
) -> None:
    listed = (await admin.get("/plugins")).json()["items"]
    await operator.open("/plugins")
    await expect(operator.page.locator("tbody tr")).to_have_count(len(listed))
    for kind in ("Guards", "Upstream providers", "Secret backends"):
        await expect(operator.page.get_by_role("region", name=kind)).to_be_visible()
    row = operator.page.get_by_role("row", name=re.compile("^echo open"))
    await expect(row).to_contain_text("relay-gateway-provider-echo")


async def test_an_instance_says_what_it_serves_and_what_waits(
    operator: Dashboard, admin: httpx.AsyncClient
) -> None:
    revision = (await admin.get("/readyz")).json()["revision"]
    await operator.open("/")
    instance = operator.page.get_by_role("region", name="This instance")
    await expect(instance).to_contain_text(f"gatewaycatalog revision {revision}, up to date")
    await expect(instance).to_contain_text("Usage for databasenothing waits")
    await expect(instance).to_contain_text(re.compile(r"Spool\d+ B"))


async def test_the_master_key_is_looked_at_generated_and_rotated(operator: Dashboard) -> None:
    await operator.open("/master-key")
    await operator.sees("current")
    await operator.press("Generate a key")
    assert re.fullmatch("[A-Za-z0-9+/]{43}=", await operator.dialog().locator("pre").inner_text())
    await operator.confirm("Close")
    await operator.press("Rotate")
    await operator.confirm("Rotate")
    await operator.sees("The last rotation ended")
