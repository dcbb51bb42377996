"""Every setting that can be changed acts within a second: on each instance, in each worker."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from relay_gateway.catalog.sections import SECTIONS
from relay_gateway.settings.data_dir import new_master_key
from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.process import GatewayProcess
from relay_gateway.testing.scenario import Scenario, running_scenario
from relay_gateway.testing.script import Script, json_response, sse_event, sse_response

SECOND = 1.0
LOOKS = 8
"""So many connections one after the other reach every one of two workers, but for one time in a
hundred, and all must see the same."""
ADMIN_TOKEN = secrets.token_hex(20)
PLAIN = {"model": "m", "messages": []}


def upstream(request: SeenRequest) -> Script:
    """Tells in its answers what it was asked."""
    if request.target.startswith("/failing"):
        # A retry for a reason that does not have the host left alone after a while.
        return json_response(307, {})
    if request.json().get("stream"):
        asked = "asked" if "stream_options" in request.json() else "quiet"
        return sse_response([sse_event({"choices": [], "id": asked}), sse_event("[DONE]")])
    if request.json()["model"] == "second":
        return json_response(200, {"choices": [], "usage": {}})
    return json_response(422, {"error": {"message": "account 4711 is over quota", "type": "x"}})


Look = Callable[[httpx.AsyncClient], Awaitable[object]]


async def leaks(caller: httpx.AsyncClient) -> object:
    return "4711" in (await caller.post("/v1/chat/completions", json=PLAIN)).text


async def asks_for_usage(caller: httpx.AsyncClient) -> object:
    body = {**PLAIN, "stream": True}
    return "asked" in (await caller.post("/v1/chat/completions", json=body)).text


async def tries_again(caller: httpx.AsyncClient) -> object:
    body = {"model": "twice", "messages": []}
    return (await caller.post("/v1/chat/completions", json=body)).status_code == 200


async def refuses_proxy_mode(caller: httpx.AsyncClient) -> object:
    headers = {"X-SVC-Proxy-Mode": "Proxy"}
    answer = await caller.post("/v1/chat/completions", json=PLAIN, headers=headers)
    return "proxy_mode_disabled" in answer.text


async def wants_a_relay_key(caller: httpx.AsyncClient) -> object:
    headers = {
        "X-SVC-Proxy-Mode": "Proxy",
        "X-SVC-Upstream-Host": "working",
        "Authorization": f"Bearer sk-{secrets.token_hex(20)}",
    }
    answer = await caller.post("/v1/chat/completions", json=PLAIN, headers=headers)
    return answer.status_code == 401


@dataclass(frozen=True, slots=True)
class Change:
    """A field, a value for it, and what callers see that is true before and false after."""

    section: str
    field: str
    value: object
    seen: Look
    before: object = None
    others: Mapping[str, object] | None = None
    """What the section has to say besides, for the field to matter; it then is ``before``."""


CHANGES = (
    Change("inference", "exposeUpstreamErrors", False, leaks),
    Change("inference", "injectStreamUsage", False, asks_for_usage),
    Change("routing", "maxAttempts", 1, tries_again, 3, {"retryBudgetRatio": 1}),
    Change("routing", "retryBudgetRatio", 0, tries_again, 1, {"maxAttempts": 3}),
    Change("proxy-mode", "enabled", True, refuses_proxy_mode),
    # Comes after the one that makes it matter.
    Change("proxy-mode", "allowUnauthenticated", True, wants_a_relay_key),
)


TIMED = {("inference", "streamPingSeconds")}
"""What takes seconds to see; the tests of translated streams do, with short ones."""
UNSEEN = {"usage-logging", "payload-logging"}
"""What callers cannot see; the tests of delivery and of payloads look where records go."""


def test_every_field_that_can_be_changed_is_among_them() -> None:
    fields = {
        (name, one.alias)
        for name, section in SECTIONS.items()
        for one in section.model_fields.values()
        if name not in UNSEEN
    }
    assert fields == TIMED | {(change.section, change.field) for change in CHANGES}


async def granted(scenario: Scenario) -> str:
    """A relay key for the models ``m`` and ``twice``, of which the second has a failing host."""
    vendor = await scenario.create("providers", "Acme")
    hosts = [
        await scenario.create(
            "hosts", path, baseUrl=f"{scenario.upstream.url}/{path}", adapter="openai", noAuth=True
        )
        for path in ("failing", "working")
    ]
    both = [{"hostId": host, "priority": n} for n, host in enumerate(hosts)]
    await scenario.create("models", "m", name="m", providerId=vendor, bindings=both[1:])
    both[1]["upstreamName"] = "second"
    await scenario.create("models", "twice", name="twice", providerId=vendor, bindings=both)
    return await scenario.relay_key("app", await scenario.create("policies", "p", models=["*"]))


async def sees(url: str, key: str, look: Look) -> set[object]:
    """What callers see at a gateway, each on a connection of its own."""
    seen = set()
    for _ in range(LOOKS):
        headers = {"Authorization": f"Bearer {key}"}
        async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False) as caller:
            seen.add(await look(caller))
    return seen


async def settled(url: str, key: str, look: Look, *, expected: object, since: float) -> float:
    """Seconds after ``since`` (of the loop's clock) at which nobody saw anything else any more:
    when the look began that saw nothing but ``expected``."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(10):
        while True:
            began = loop.time()
            if await sees(url, key, look) == {expected}:
                return max(0.0, began - since)


@asynccontextmanager
async def two_instances(directory: Path, url: str) -> AsyncIterator[tuple[Scenario, list[str]]]:
    environ = {
        "RELAY_DATABASE_URL": url,
        "RELAY_MASTER_KEY": new_master_key(),
        "RELAY_ADMIN_TOKEN": ADMIN_TOKEN,
    }
    (directory / "other").mkdir()
    async with (
        running_scenario(directory, upstream, environ) as scenario,
        GatewayProcess(directory / "other", environ) as other,
    ):
        yield scenario, [scenario.gateway.inference_url, other.inference_url]


@asynccontextmanager
async def two_workers(directory: Path) -> AsyncIterator[tuple[Scenario, list[str]]]:
    async with running_scenario(directory, upstream, {"RELAY_WORKERS": "2"}) as scenario:
        yield scenario, [scenario.gateway.inference_url]


@pytest.mark.parametrize("fleet", ["instances on postgresql", "workers on sqlite"])
async def test_r6_every_setting_acts_everywhere_within_a_second(
    fleet: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    async with AsyncExitStack() as stack:
        if fleet == "workers on sqlite":
            opened = two_workers(tmp_path)
        else:
            opened = two_instances(tmp_path, request.getfixturevalue("postgres_url"))
        scenario, urls = await stack.enter_async_context(opened)
        key = await granted(scenario)
        loop = asyncio.get_running_loop()
        for change in CHANGES:
            path, body = f"/settings/{change.section}", {change.field: change.value}
            if change.others:
                body |= change.others
                before = {change.field: change.before, **change.others}
                assert (await scenario.admin.put(path, json=before)).status_code == 200
            for url in urls:
                await settled(url, key, change.seen, expected=True, since=loop.time())
            assert (await scenario.admin.put(path, json=body)).status_code == 200
            answered = loop.time()
            took = await asyncio.gather(
                *(settled(url, key, change.seen, expected=False, since=answered) for url in urls)
            )
            assert max(took) <= SECOND, (change.field, took)
