"""From an empty gateway to a first answer, and its record, with nothing but a browser."""

from __future__ import annotations

import base64
import secrets
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from relay_gateway.testing.dashboard import operator_at
from relay_gateway.testing.process import GatewayProcess
from relay_gateway.testing.script import json_response
from relay_gateway.testing.upstream import ScriptedUpstream

KEY = "sk-relay-"


async def add_host(gateway: GatewayProcess, url: str) -> None:
    spec = {"baseUrl": url, "adapter": "openai"}
    async with gateway.control() as admin:
        answer = await admin.post(
            "/hosts", json={"metadata": {"displayName": "Acme"}, "spec": spec}
        )
        assert answer.status_code == 201, answer.text


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_an_empty_gateway_gives_its_first_answer(
    browser: Browser, tmp_path: Path, database: str, request: pytest.FixtureRequest
) -> None:
    environ = {"RELAY_LOG_LEVEL": "warning"}
    if database == "postgresql":
        environ["RELAY_DATABASE_URL"] = request.getfixturevalue("postgres_url")
        environ["RELAY_ADMIN_TOKEN"] = "made-up-admin-token-of-forty-characters!"
        environ["RELAY_MASTER_KEY"] = base64.b64encode(secrets.token_bytes(32)).decode()
    async with (
        ScriptedUpstream(lambda _: json_response(200, {"data": []})) as upstream,
        GatewayProcess(tmp_path, environ) as gateway,
        operator_at(browser, gateway, logged_in=False) as operator,
    ):
        await add_host(gateway, upstream.url)
        page = operator.page
        await operator.open()
        await operator.log_in("not-the-token")
        await expect(page.get_by_role("alert")).to_be_visible()
        await page.locator("#login-password").fill(gateway.admin_token)
        await page.get_by_role("button", name="Log in", exact=True).click()
        await operator.sees("No request in this time")
        await page.get_by_role("navigation").get_by_role("link", name="First steps").click()

        host = page.get_by_role("region", name="Choose a host and give its key")
        await operator.pick("#first-host", "Echo")
        await operator.sees("This host needs no key.")
        await operator.pick("#first-host", "Acme")
        await host.get_by_label("Kind").select_option("stored")
        await host.get_by_label("Value", exact=True).fill("sk-typed-into-the-form")
        await operator.press("Save and test")
        await operator.sees("The key is saved.")
        await expect(host.locator(".notice.good").last).to_be_visible()

        await operator.press("Make the key")
        minted = page.get_by_role("region", name="Make a relay key")
        plaintext = await minted.locator("pre").inner_text()
        assert plaintext.startswith(KEY)
        assert len(plaintext) == len(KEY) + 49
        assert plaintext in await page.locator("pre").last.inner_text()

        await page.get_by_role("button", name="Send", exact=True).click()
        await expect(page.locator("article.assistant pre")).to_have_text(
            "echo: Say hello in one sentence."
        )
        await page.get_by_role("link", name="See it in the log").click()
        await expect(page.get_by_role("heading", level=1)).to_contain_text("echo ok")
        await operator.sees("streamed")
        assert KEY + plaintext[9:20] not in await page.content()

        await page.get_by_role("navigation").get_by_role("link", name="Logs").click()
        await expect(page.get_by_role("row")).to_have_count(1)
        await page.get_by_role("navigation").get_by_role("link", name="Relay keys").click()
        await operator.sees("My application")
        assert plaintext not in await page.content()
