"""A working day: sessions end, the gateway goes away, and hands stay on the keyboard."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import httpx
from playwright.async_api import Browser, expect

from relay_gateway.testing.dashboard import Dashboard, operator_at
from relay_gateway.testing.process import GatewayProcess

NARROW = {"width": 390, "height": 844}


async def test_t45_a_session_that_ends_in_the_middle_of_a_form_loses_nothing(
    operator: Dashboard, gateway: GatewayProcess, admin: httpx.AsyncClient
) -> None:
    await operator.open("/providers/new")
    await operator.fill("Display name", "Typed before")
    await operator.fill("Description", "a long text")
    await operator.page.context.clear_cookies()
    await operator.save()
    await operator.sees("Your session has ended")
    await operator.log_in(gateway.admin_token)
    await operator.toast("Created")
    assert (await admin.get("/providers/typed-before")).status_code == 200
    await expect(operator.field("Description")).to_have_value("a long text")


async def test_a_gateway_that_goes_away_is_said_and_its_return_too(
    browser: Browser, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    environ = {"RELAY_CONTROL_PORT": port, "RELAY_LOG_LEVEL": "warning"}
    async with (
        GatewayProcess(tmp_path, environ) as gateway,
        operator_at(browser, gateway) as operator,
    ):
        await operator.open("/hosts")
        await operator.sees("Echo")
        await gateway.stop()
        await operator.page.get_by_role("link", name="Models").click()
        await operator.sees("The gateway does not answer.")
        await gateway.start()
        await expect(operator.page.locator(".banner")).to_have_count(0)
        await expect(operator.page.locator("tbody tr").first).to_be_visible()
        await expect(operator.page.get_by_role("alert")).to_have_count(0)


async def test_the_keyboard_is_enough_and_no_key_has_to_wait_for_a_view(
    operator: Dashboard, admin: httpx.AsyncClient
) -> None:
    page = operator.page
    listed = (await admin.get("/pricings", params={"sort": "displayName"})).json()["items"]
    await operator.open("/")
    await page.keyboard.press("Control+k")
    await page.keyboard.type("echo")
    await expect(
        operator.dialog().get_by_role("option").filter(has_text="Host").first
    ).to_be_visible()
    await page.keyboard.press("Control+a")
    await page.keyboard.type("price li")
    for key in ("Enter", "j", "j", "j", "k", "Enter"):
        await page.keyboard.press(key)
    await expect(page.locator("h1")).to_have_text(listed[1]["metadata"]["displayName"])
    await page.keyboard.press("g")
    await page.keyboard.press("h")
    await page.keyboard.press("/")
    await page.keyboard.type("echo?")
    await expect(page).to_have_url(re.compile("/ui/hosts"))
    await expect(page.locator("[data-search]")).to_have_value("echo?")
    await page.locator("[data-search]").blur()
    await page.keyboard.press("?")
    await expect(operator.dialog()).to_contain_text("Keyboard shortcuts")
    await page.keyboard.press("Escape")
    await expect(operator.dialog()).to_have_count(0)
    for key in ("n", *"By hand"):
        await page.keyboard.press(key)
    await expect(page).to_have_url(re.compile("/ui/hosts/new$"))
    await expect(operator.field("Display name")).to_have_value("By hand")
    await page.keyboard.press("Control+s")
    await operator.sees("need attention")


async def test_unsaved_input_is_asked_about_before_the_back_button_loses_it(
    operator: Dashboard,
) -> None:
    page = operator.page
    await operator.open("/providers")
    await page.get_by_role("link", name="New provider").click()
    await operator.fill("Display name", "Half a name")
    for _ in range(2):
        await page.evaluate("history.back()")
        await expect(operator.dialog()).to_contain_text("Leave without saving?")
        await expect(page).to_have_url(re.compile("/ui/providers/new$"))
        await expect(operator.dialog().get_by_role("button", name="Stay here")).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(operator.dialog()).to_have_count(0)
    await expect(operator.field("Display name")).to_have_value("Half a name")
    await page.evaluate("history.back()")
    await operator.confirm("Leave")
    await expect(page).to_have_url(re.compile("/ui/providers$"))
    await page.evaluate("history.forward()")
    await expect(page.locator("h1")).to_have_text("New provider")


async def test_unsaved_input_is_asked_about_before_a_link_loses_it(operator: Dashboard) -> None:
    page = operator.page
    hosts = page.get_by_role("navigation").get_by_role("link", name="Hosts")
    await operator.open("/settings")
    await operator.fill("Max attempts", "7")
    await hosts.click()
    await operator.confirm("Stay here")
    await expect(operator.field("Max attempts")).to_have_value("7")
    await hosts.click()
    await operator.confirm("Leave")
    await expect(page.locator("h1")).to_have_text("Hosts")
    await expect(operator.dialog()).to_have_count(0)
    await page.evaluate("history.back()")
    await expect(page.locator("h1")).to_have_text("Settings")
    await expect(operator.field("Max attempts")).not_to_have_value("7")


async def test_what_is_typed_stays_when_what_is_stored_changes(
    operator: Dashboard, admin: httpx.AsyncClient
) -> None:
    policy = (await admin.get("/policies/default")).json()["metadata"]["id"]
    body = {"metadata": {"displayName": "Rotated"}, "spec": {"policyId": policy}}
    made = (await admin.post("/relay-keys", json=body)).json()["relayKey"]["metadata"]["id"]
    await operator.open(f"/relay-keys/{made}")
    await operator.fill("Description", "Typed before it was rotated")
    await operator.press("Rotate")
    await operator.confirm("Rotate")
    await operator.confirm("I have copied it")
    await operator.sees("version 2")
    await expect(operator.field("Description")).to_have_value("Typed before it was rotated")
    await operator.save()
    await operator.confirm("Save")
    await operator.sees("version 3")
    stored = (await admin.get(f"/relay-keys/{made}")).json()["metadata"]
    assert stored["description"] == "Typed before it was rotated"
    await expect(operator.page.locator("[data-save]")).to_be_disabled()


async def test_a_deep_link_survives_the_login(browser: Browser, gateway: GatewayProcess) -> None:
    async with operator_at(browser, gateway, logged_in=False) as operator:
        await operator.open("/models?q=echo&sort=-updatedAt")
        await operator.log_in(gateway.admin_token)
        await expect(operator.page.locator("tbody tr").first).to_contain_text("Echo")
        await expect(operator.page.locator("[data-search]")).to_have_value("echo")
        await operator.open("/nowhere")
        await operator.sees("There is no such view")
        await operator.open("/hosts/nobody")
        await operator.sees("The address may be old or mistyped.")


async def test_everything_fits_a_narrow_screen(browser: Browser, gateway: GatewayProcess) -> None:
    async with operator_at(browser, gateway, viewport=NARROW) as operator:
        page = operator.page
        for path in ("/", "/logs", "/models", "/hosts/echo", "/settings", "/audit", "/plugins"):
            await operator.open(path)
            await page.wait_for_load_state("networkidle")
            width = await page.evaluate("document.documentElement.scrollWidth")
            assert width <= NARROW["width"], path
        await operator.press("Menu")
        await page.get_by_role("navigation").get_by_role("link", name="Explain").click()
        await expect(page.get_by_role("navigation")).not_to_be_visible()
        await expect(page.locator("h1")).to_have_text("Explain")


async def test_times_are_those_of_the_chosen_zone(
    operator: Dashboard, admin: httpx.AsyncClient
) -> None:
    page = operator.page
    await operator.open("/logs?from=2026-01-01T12:00:00.000Z")
    await page.get_by_role("button", name=re.compile("^Filters")).click()
    await expect(page.locator("#f-from")).to_have_value("2026-01-01T13:00")
    await page.get_by_label("Time zone").select_option("UTC")
    await expect(page.locator("#f-from")).to_have_value("2026-01-01T12:00")
    await page.locator("#f-from").fill("2026-01-02T08:30")
    await expect(page).to_have_url(re.compile(r"from=2026-01-02T08%3A30%3A00.000Z"))
