"""Guards are reloaded in every worker: no connection finds one that judges by what was before."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from relay_gateway.testing.gateway_app import GatewayApp
from relay_gateway.testing.held import ENOUGH_CONNECTIONS, PROPAGATION_SECONDS
from relay_gateway.testing.scrape import Scrape
from relay_gateway.testing.speakers import speak

MODEL = "large"
CARD = "1234 5678 9012 3456"
BODY = {"model": MODEL, "messages": [{"role": "user", "content": f"My card is {CARD}."}]}
MASK = r"""
[guarding]
order = ["patterns"]

[guards.patterns]
endpoints = ["chat.completions"]

[[guards.patterns.rules]]
name = "card"
pattern = '\d{4} \d{4} \d{4} \d{4}'
action = "mask"
"""
DENY = MASK.replace('"mask"', '"deny"')
DRY = DENY.replace("[guards.patterns]", "[guards.patterns]\ndry_run = true")
BROKEN = MASK.replace(r"'\d", r"'(\d")
PROCESSES = {"control", "worker-1", "worker-2"}
SENT, MASKED, REFUSED = {(200, CARD)}, {(200, "[card]")}, {(403, None)}


class Workers:
    """Two workers with a model that an upstream answers, and their ``relay.toml``."""

    def __init__(self, app: GatewayApp) -> None:
        self.app = app

    async def ask(self) -> tuple[int, str | None]:
        """Asks on a connection of its own: the status, and what the upstream was told of the
        card, if it was asked at all."""
        ledger = self.app.upstream.ledger
        before = len(ledger)
        answer = await self.app.post("/v1/chat/completions", BODY, {"connection": "close"})
        if len(ledger) == before:
            return answer.status_code, None
        (request,) = ledger[before:]
        told: str = request.json()["messages"][0]["content"]
        return answer.status_code, told.removeprefix("My card is ").removesuffix(".")

    async def found(self) -> set[tuple[int, str | None]]:
        """What became of so many requests that each worker has had its share of them."""
        return {await self.ask() for _ in range(ENOUGH_CONNECTIONS)}

    async def until_known(self) -> None:
        """Waits until every worker serves the model."""
        async with asyncio.timeout(PROPAGATION_SECONDS):
            while await self.found() != SENT:
                pass

    async def until_all_are_there(self) -> None:
        """Waits until the control process answers, and both workers answer it."""
        async with asyncio.timeout(PROPAGATION_SECONDS):
            there: set[str] = set()
            while there != PROCESSES:
                with suppress(httpx.TransportError):
                    scrape = await Scrape.of(self.app.admin)
                    there = {name for (name,) in scrape.by("relay_state_store_up", "process")}

    async def reload(self, text: str) -> dict[str, Any]:
        """Has every process read this; what became of the guard, by process."""
        (self.app.directory / "relay.toml").write_text(text, "utf-8")
        answer = await self.app.admin.post("/plugins/reload", timeout=60.0)
        assert answer.status_code == 200, answer.text
        return {one["process"]: one["changes"] for one in answer.json()["processes"]}


@pytest.fixture
async def workers(tmp_path: Path) -> AsyncIterator[Workers]:
    async with GatewayApp(tmp_path, environ={"RELAY_WORKERS": "2"}) as app:
        app.upstream.answer = speak
        await app.serve(MODEL, adapter="openai", wire_formats=["openai.chat"])
        workers = Workers(app)
        await workers.until_known()
        yield workers


def changes(what: str) -> dict[str, Any]:
    """The same change of the guard in every process."""
    change = {"kind": "guard", "name": "patterns", "change": what, "error": None}
    return {process: [change] for process in PROCESSES}


async def test_every_worker_judges_by_what_was_reloaded_from_the_next_request_on(
    workers: Workers,
) -> None:
    assert await workers.reload(MASK) == changes("enabled")
    assert await workers.found() == MASKED
    assert await workers.reload(DENY) == changes("reconfigured")
    assert await workers.found() == REFUSED
    assert await workers.reload(DRY) == changes("reconfigured")
    assert await workers.found() == SENT
    assert await workers.reload(DENY) == changes("reconfigured")
    assert await workers.found() == REFUSED
    assert await workers.reload("") == changes("disabled")
    assert await workers.found() == SENT


async def test_no_worker_takes_a_pattern_that_is_none(workers: Workers) -> None:
    await workers.reload(DENY)
    (workers.app.directory / "relay.toml").write_text(BROKEN, "utf-8")
    answer = await workers.app.admin.post("/plugins/reload")
    assert answer.status_code == 422
    assert "[guards.patterns] rules" in answer.json()["error"]["message"]
    assert await workers.found() == REFUSED


async def test_who_takes_the_place_of_a_killed_process_has_the_guards_that_are_in_force(
    workers: Workers,
) -> None:
    """Neither those of the start, nor those of a file that nobody has had read again."""
    gateway = workers.app.gateway
    await workers.reload(DENY)
    (workers.app.directory / "relay.toml").write_text(BROKEN, "utf-8")
    killed = gateway.children()
    for process in killed:
        os.kill(process, signal.SIGKILL)
    await workers.until_all_are_there()
    assert not {*killed} & {*gateway.children()}
    assert await workers.found() == REFUSED
    plugins = (await workers.app.admin.get("/plugins")).json()["items"]
    (guard,) = [one for one in plugins if (one["kind"], one["name"]) == ("guard", "patterns")]
    assert (guard["state"], guard["config"]["rules"][0]["action"]) == ("open", "deny")
    assert await workers.reload("") == changes("disabled")
    assert await workers.found() == SENT


async def test_a_signal_is_also_heard_by_a_worker_that_has_not_started_yet(
    workers: Workers,
) -> None:
    gateway = workers.app.gateway
    before = set(gateway.children())
    os.kill(gateway.children()[0], signal.SIGKILL)
    async with asyncio.timeout(PROPAGATION_SECONDS):
        while set(gateway.children()) <= before:  # noqa: ASYNC110 - /proc sets no event
            await asyncio.sleep(0.005)
    (workers.app.directory / "relay.toml").write_text(DENY, "utf-8")
    gateway.send_signal(signal.SIGHUP)
    await workers.until_all_are_there()
    async with asyncio.timeout(PROPAGATION_SECONDS):
        while await workers.found() != REFUSED:
            pass
