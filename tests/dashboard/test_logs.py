"""The log: followed live under load, filtered in the address bar, read to the last detail."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio
from playwright.async_api import expect

from relay_gateway.testing.dashboard import Dashboard
from relay_gateway.testing.process import GatewayProcess

LIVE = 300


class Caller:
    """Somebody who asks the echo model, and whose payloads are kept."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def ask(self, text: str, *, model: str = "echo", stream: bool = False) -> str:
        messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": text}]
        body = {"model": model, "stream": stream, "messages": messages}
        answer = await self._client.post("/v1/chat/completions", json=body)
        return answer.headers["x-relay-request-id"]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def caller(gateway: GatewayProcess, admin: httpx.AsyncClient) -> AsyncIterator[Caller]:
    kept = {"enabled": True, "loggers": ["database"]}
    assert (await admin.put("/settings/payload-logging", json=kept)).status_code == 200
    policy = (await admin.get("/policies/default")).json()["metadata"]["id"]
    spec = {"policyId": policy, "payloadLogging": True, "tags": {"team": "search"}}
    made = await admin.post(
        "/relay-keys", json={"metadata": {"displayName": "Caller"}, "spec": spec}
    )
    headers = {"authorization": f"Bearer {made.json()['plaintext']}"}
    async with httpx.AsyncClient(
        base_url=gateway.inference_url, headers=headers, trust_env=False
    ) as client:
        yield Caller(client)


async def test_a_live_tail_follows_what_comes_under_load(
    operator: Dashboard, caller: Caller
) -> None:
    page = operator.page
    await caller.ask("before")
    await operator.open("/logs?live=1")
    grid = page.get_by_role("grid")
    await expect(grid).to_be_visible()
    for _ in range(LIVE // 30):
        await asyncio.gather(*(caller.ask("during") for _ in range(30)))
    last = await caller.ask("the last")
    await expect(page.locator(f"a[href='/ui/logs/{last}']")).to_be_visible()
    assert await page.get_by_role("row").count() < 80
    await page.get_by_label("Follow live").uncheck()
    await expect(page).to_have_url(re.compile("/ui/logs$"))
    await grid.evaluate("(element) => element.scrollTo(0, element.scrollHeight)")
    await expect(grid).not_to_have_attribute("aria-rowcount", "100")


async def test_filters_are_in_the_address_and_a_link_has_them_all(
    operator: Dashboard, caller: Caller, admin: httpx.AsyncClient
) -> None:
    await caller.ask("ok")
    refused = await caller.ask("nobody", model="nobody-has-this")
    page = operator.page
    await operator.open("/logs")
    await page.get_by_role("button", name=re.compile("^Filters")).click()
    await page.locator("#f-outcome").select_option("rejected")
    await expect(page.get_by_role("row")).to_have_count(1)
    await expect(page.locator(f"a[href='/ui/logs/{refused}']")).to_be_visible()
    await operator.pick("#f-relayKeyId", "Caller")
    key = (await admin.get("/relay-keys/caller")).json()["metadata"]["id"]
    await expect(page).to_have_url(re.compile(f"outcome=rejected&relayKeyId={key}"))
    await page.reload()
    await expect(page.get_by_role("row")).to_have_count(1)
    await operator.sees("Outcome: rejected")
    await page.get_by_role("button", name="Remove Outcome").click()
    await expect(page.get_by_role("row").nth(1)).to_be_visible()
    await operator.open("/logs?tag=team:nobody")
    await operator.sees("Nothing matches")


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_is_read_as_a_conversation_and_as_text(
    operator: Dashboard, caller: Caller, stream: bool
) -> None:
    page = operator.page
    identity = await caller.ask("How are you?", stream=stream)
    await operator.open(f"/logs/{identity}")
    await expect(page.locator("article.turn")).to_have_count(3)
    await expect(page.locator("article.user pre")).to_have_text("How are you?")
    await expect(page.locator("article.assistant pre")).to_have_text("echo: How are you?")
    await operator.sees("team: search")
    await operator.press("Plain text")
    await expect(page.locator("pre.body").first).to_contain_text('"How are you?"')
    async with page.expect_download() as downloading:
        await page.get_by_role("button", name="Download").first.click()
    download = await downloading.value
    assert download.suggested_filename == f"{identity}-request.txt"
    assert json.loads((await download.path()).read_text("utf-8"))["model"] == "echo"


async def test_t34_a_name_that_only_looks_like_a_model_is_seen_not_to_be(
    operator: Dashboard, caller: Caller
) -> None:
    identity = await caller.ask("Who are you?", model="ech\u043e")
    await operator.open(f"/logs/{identity}")
    await expect(operator.page.locator("h1")).to_contain_text(r"ech\u{43e} rejected")
    await operator.open(f"/logs?requestId={identity}")
    await operator.sees(r"ech\u{43e}")


async def test_a_request_says_what_each_meter_cost(
    operator: Dashboard, caller: Caller, admin: httpx.AsyncClient
) -> None:
    rates = [{"meter": "tokens.input", "amount": "3"}, {"meter": "tokens.output", "amount": "15"}]
    pricing = {"metadata": {"displayName": "Prices"}, "spec": {"rates": rates}}
    identity = (await admin.post("/pricings", json=pricing)).json()["metadata"]["id"]
    echo = (await admin.get("/models/echo")).json()
    echo["spec"]["bindings"][0]["pricingId"] = identity
    model = {"metadata": {"displayName": "Echo"}, "spec": echo["spec"]}
    await admin.put(f"/models/by-id/{echo['metadata']['id']}", json=model)
    asked = await caller.ask("What is this?")
    await operator.open(f"/logs/{asked}")
    for meter in ("tokens.input", "tokens.output"):
        term = operator.page.locator("dt", has_text=meter)
        await expect(term.locator("+ dd")).to_have_text(re.compile(r"^\d+ · \$0\.0+[1-9]\d*$"))


async def test_a_request_id_is_followed_from_the_palette(
    operator: Dashboard, caller: Caller
) -> None:
    identity = await caller.ask("Find me")
    await operator.open("/")
    await operator.page.keyboard.press("Control+k")
    await operator.page.keyboard.type(identity)
    await operator.page.keyboard.press("Enter")
    await expect(operator.page).to_have_url(re.compile(identity))
    await operator.sees("Find me")


async def test_failed_attempts_are_on_the_time_line(operator: Dashboard, caller: Caller) -> None:
    identity = await caller.ask('!echo {"status": 503, "message": "resting"}')
    await operator.open(f"/logs/{identity}")
    await expect(operator.page.locator(".attempt .bad").first).to_be_visible()
    await expect(operator.page.locator("h1")).to_contain_text("upstream_error")
