"""The catalog by its forms: made, changed with a look at the difference, deleted."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, expect

from relay_gateway.testing.dashboard import Dashboard, operator_at
from relay_gateway.testing.process import GatewayProcess

Fill = Callable[[Dashboard], Awaitable[None]]


async def fill_host(operator: Dashboard) -> None:
    await operator.fill("Base URL", "http://127.0.0.1:9")
    await operator.field("Adapter").select_option("echo")
    await operator.add_to("Adapter config", "Add")
    await operator.fill("Latency ms", "5")


async def fill_model(operator: Dashboard) -> None:
    await operator.page.get_by_role("textbox", name="Name", exact=True).fill("acme-large")
    await operator.pick_in("Provider", "Echo")
    await operator.add_to("Bindings")
    await operator.pick_in("Host", "Echo")
    await operator.fill("Aliases", "acme-*\nacme-latest")


async def fill_pricing(operator: Dashboard) -> None:
    await operator.add_to("Rates")
    await operator.field("Meter").select_option("tokens.input")
    await operator.fill("Amount", "1.25")


async def fill_rate_limit(operator: Dashboard) -> None:
    await operator.add_to("Rules")
    await operator.field("Meter").select_option("requests")
    await operator.fill("Amount", "60")
    await operator.fill("Window seconds", "60")


async def fill_policy(operator: Dashboard) -> None:
    await operator.fill("Models", "echo\nacme-large")
    await operator.add_to("Budgets")
    await operator.fill("Amount", "5")
    await operator.field("Window").select_option("month")


async def fill_host_key(operator: Dashboard) -> None:
    await operator.pick_in("Host", "Echo")
    await operator.pick_in("Policy", "Default")
    await operator.field("Kind").select_option("env")
    await operator.fill("Env", "ACME_API_KEY")


async def fill_relay_key(operator: Dashboard) -> None:
    await operator.pick_in("Policy", "Default")
    await operator.add_to("Tags")
    await operator.fill("Key", "team")
    await operator.fill("Value", "search")


async def fill_provider(operator: Dashboard) -> None:
    await operator.fill("Homepage URL", "https://acme.invalid")


KINDS: dict[str, tuple[str, Fill, dict[str, Any]]] = {
    "providers": ("Provider", fill_provider, {"homepageUrl": "https://acme.invalid"}),
    "hosts": ("Host", fill_host, {"adapterConfig": {"latencyMs": 5, "chunkDelayMs": 0}}),
    "models": ("Model", fill_model, {"name": "acme-large", "aliases": ["acme-*", "acme-latest"]}),
    "pricings": ("Price list", fill_pricing, {"currency": "USD"}),
    "rate-limits": ("Rate limit", fill_rate_limit, {}),
    "policies": ("Policy", fill_policy, {"models": ["echo", "acme-large"]}),
    "host-keys": (
        "Host key",
        fill_host_key,
        {"valueFrom": {"kind": "env", "env": "ACME_API_KEY"}},
    ),
    "relay-keys": ("Relay key", fill_relay_key, {"tags": {"team": "search"}}),
}


@pytest.mark.parametrize("plural", KINDS)
async def test_every_kind_is_created_edited_and_deleted(
    operator: Dashboard, admin: httpx.AsyncClient, plural: str
) -> None:
    kind, fill, expected = KINDS[plural]
    page = operator.page
    await operator.open(f"/{plural}")
    await page.get_by_role("link", name=f"New {kind.lower()}").first.click()
    await operator.fill("Display name", f"Acme {kind}")
    await fill(operator)
    await operator.save()
    if plural == "relay-keys":
        assert (await operator.dialog().locator("pre").inner_text()).startswith("sk-relay-")
        await operator.confirm("I have copied it")
    await operator.toast("Created")
    await expect(page).to_have_url(re.compile(rf"/ui/{plural}/[0-9a-f-]{{36}}$"))
    identity = page.url.rpartition("/")[2]
    stored = (await admin.get(f"/{plural}/{identity}")).json()
    assert {name: stored["spec"][name] for name in expected} == expected

    await operator.fill("Description", "Changed by hand")
    await operator.save()
    difference = operator.dialog().get_by_role("row")
    await expect(difference).to_have_count(2)
    await expect(difference.last).to_contain_text("Changed by hand")
    await operator.confirm("Save")
    await operator.toast("Saved")
    await operator.sees("version 2")

    await operator.press("Delete")
    await operator.confirm("Delete")
    await operator.toast("Deleted")
    await expect(page).to_have_url(re.compile(f"/ui/{plural}$"))
    assert (await admin.get(f"/{plural}/{identity}")).status_code == 404


async def test_fields_that_are_refused_are_named_and_nothing_is_lost(operator: Dashboard) -> None:
    await operator.open("/hosts/new")
    await operator.fill("Display name", "Somewhere")
    await operator.fill("Base URL", "not an address")
    await operator.field("Adapter").select_option("echo")
    await operator.save()
    await operator.sees("needs attention")
    await operator.page.get_by_role("alert").get_by_role("link").first.click()
    await expect(operator.field("Base URL")).to_be_focused()
    await expect(operator.field("Base URL")).to_have_attribute("aria-invalid", "true")
    await expect(operator.field("Display name")).to_have_value("Somewhere")


async def test_what_is_in_use_is_not_deleted_and_its_users_are_listed(
    operator: Dashboard, admin: httpx.AsyncClient
) -> None:
    echo = (await admin.get("/hosts/echo")).json()["metadata"]["id"]
    await operator.open(f"/hosts/{echo}")
    await operator.press("Delete")
    await operator.confirm("Delete")
    await operator.sees("It is still in use")
    await operator.dialog().get_by_role("link", name="Echo").first.click()
    await expect(operator.page).to_have_url(re.compile("/ui/models/"))


@pytest.mark.parametrize("choice", ["Save mine over it", "Take theirs"])
async def test_two_administrators_at_one_entity_see_both_versions(
    browser: Browser, gateway: GatewayProcess, admin: httpx.AsyncClient, choice: str
) -> None:
    body = {"metadata": {"displayName": "Shared"}, "spec": {}}
    identity = (await admin.post("/providers", json=body)).json()["metadata"]["id"]
    async with (
        operator_at(browser, gateway) as first,
        operator_at(browser, gateway) as second,
    ):
        for operator in (first, second):
            await operator.open(f"/providers/{identity}")
        for operator, text in ((first, "first"), (second, "second")):
            await operator.fill("Description", f"said by the {text}")
            await operator.save()
            await operator.confirm("Save")
            if operator is first:
                await operator.toast("Saved")
        await second.sees("Somebody else has changed this meanwhile")
        row = second.dialog().get_by_role("row").last
        await expect(row).to_contain_text("said by the first")
        await expect(row).to_contain_text("said by the second")
        await second.confirm(choice)
        kept = "second" if choice.startswith("Save") else "first"
        if kept == "second":
            await second.toast("Saved")
        await expect(second.field("Description")).to_have_value(f"said by the {kept}")
        await expect(second.dialog()).to_have_count(0)
    stored = (await admin.get(f"/providers/{identity}")).json()["metadata"]
    assert stored["description"] == f"said by the {kept}"


async def test_a_list_is_searched_filtered_and_sorted_in_the_address(
    operator: Dashboard, admin: httpx.AsyncClient
) -> None:
    for name, label, enabled in (("Zebra", "a", True), ("Zebu", "b", True), ("Zero", "b", False)):
        metadata = {"displayName": name, "labels": {"team": label}}
        await admin.post(
            "/rate-limits",
            json={
                "metadata": metadata,
                "spec": {
                    "enabled": enabled,
                    "rules": [{"meter": "requests", "amount": 1, "windowSeconds": 1}],
                },
            },
        )
    page = operator.page
    await operator.open("/rate-limits")
    rows = page.locator("tbody tr")
    await page.locator("[data-search]").fill("zeb")
    await expect(rows).to_have_count(2)
    await page.get_by_label("Label, as team=search").fill("team=b")
    await expect(rows).to_have_count(1)
    await expect(page).to_have_url(re.compile("q=zeb&label=team%3Db"))
    await operator.open("/rate-limits?label=team%3Db")
    await expect(rows).to_have_count(2)
    await page.get_by_label("State", exact=True).select_option("false")
    await expect(rows).to_have_count(1)
    await operator.sees("Zero")
    await page.get_by_label("Label, as team=search").fill("team=nobody")
    await operator.sees("Nothing matches")
    await page.get_by_role("link", name="Clear filters").click()
    await page.get_by_role("button", name="Name").click()
    await expect(rows.first).to_contain_text("Zero")
    await page.go_back()
    await expect(page).to_have_url(re.compile("/ui/rate-limits"))
