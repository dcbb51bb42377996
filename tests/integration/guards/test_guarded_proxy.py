"""Guards before proxy mode: they may refuse, and every byte goes on as it came."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest

from relay_gateway.testing.guarded import GuardedGateway

from .conftest import Stage
from .watchers import Hooks, refuse, shout

pytestmark = pytest.mark.asyncio(loop_scope="package")
PATH = "/at-chat/v1/chat/completions"
ASKED = b'{ "model":"chat", "messages":[{"role":"user","content":"Hello"}] }'
JSON = (b"content-type", b"application/json")


async def proxied(world: GuardedGateway, body: bytes = ASKED, *more: Any, **options: Any) -> Any:
    answer = await world.admin.put("/settings/proxy-mode", json={"enabled": True})
    assert answer.status_code == 200
    await world.gateway.watcher.refresh()
    headers = [JSON, (b"authorization", b"Bearer own"), *more]
    return await world.send(options.pop("path", PATH), body, headers=headers, proxied=True)


@pytest.mark.parametrize("encoded", [False, True], ids=["plain", "gzip"])
async def test_a_request_in_proxy_mode_is_judged_and_goes_on_byte_for_byte(
    stage: Stage, encoded: bool
) -> None:
    hooks = Hooks("watch", reads_responses=False)
    body = gzip.compress(ASKED) if encoded else ASKED
    more = [(b"content-encoding", b"gzip")] if encoded else []
    async with stage(hooks, order=["watch"]) as world:
        world.upstream.answer, before = _tell, world.upstream.answer
        caller = await proxied(world, body, *more)
        world.upstream.answer = before
        assert world.upstream.ledger[-1].body == body
    (request,) = hooks.guards["watch"].seen
    assert (caller.status, request.messages[0].parts[0].text) == (200, "Hello")
    assert hooks.guards["watch"].whoever[0].mode == "proxy"


def _tell(_request: Any) -> Any:
    from relay_gateway.testing.script import json_response

    return json_response(200, {})


async def test_a_refusal_in_proxy_mode_reaches_no_host(stage: Stage) -> None:
    hooks = Hooks("strict", on_request=refuse, reads_responses=False)
    async with stage(hooks, order=["strict"]) as world:
        caller = await proxied(world)
        record = await world.record(caller)
        assert world.upstream.ledger == []
    assert caller.status == 403
    assert json.loads(caller.body)["error"]["code"] == "guard_refused"
    assert (record.mode, record.outcome) == ("proxy", "rejected")


@pytest.mark.parametrize("policy", ["open", "closed"])
@pytest.mark.parametrize(
    ("hooks", "why"),
    [
        (Hooks("loud", on_request=shout, reads_responses=False), b"may not be changed"),
        (Hooks("loud"), b"is not looked at in proxy mode"),
    ],
    ids=["changes", "reads answers"],
)
async def test_what_a_guard_cannot_do_in_proxy_mode_is_refused_or_left_out(
    stage: Stage, policy: str, hooks: Hooks, why: bytes
) -> None:
    async with stage(hooks, order=["loud"], guards={"loud": {"on_failure": policy}}) as world:
        caller = await proxied(world)
        assert [one.body for one in world.upstream.ledger] == [ASKED] * (policy == "open")
    assert caller.status == (200 if policy == "open" else 403)
    assert policy == "open" or why in caller.body


async def test_a_path_of_no_wire_format_is_refused_by_a_guard_that_fails_closed(
    stage: Stage,
) -> None:
    hooks = Hooks("watch", reads_responses=False)
    async with stage(hooks, order=["watch"]) as world:
        assert (await proxied(world, b"{}", path="/at-chat/v1/files")).status == 403
        # Without a body there is nothing to look at.
        assert (await proxied(world, b"", path="/at-chat/v1/files")).status != 403
        sections = {"watch": {"modes": ["gateway"]}}
        async with stage(hooks, order=["watch"], guards=sections):
            assert (await proxied(world, b"{}", path="/at-chat/v1/files")).status != 403
