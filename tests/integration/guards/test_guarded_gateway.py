"""Guards before a whole gateway: what they see, what they change, what they refuse."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from relay_gateway.plugin.canonical import CanonicalRequest, CanonicalResponse
from relay_gateway.testing.chaos import Way, misbehave, misbehave_awaited
from relay_gateway.testing.guarded import GuardedGateway
from relay_gateway.testing.ledger import SeenRequest
from relay_gateway.testing.script import Script
from relay_gateway.testing.speakers import speak
from relay_gateway.testing.speakers.scene import GREETING

from .conftest import Stage
from .watchers import Hooks, fail, loud_event, refuse, shout

pytestmark = pytest.mark.asyncio(loop_scope="package")
CHAT = "/v1/chat/completions"
CALLERS = [(CHAT, "chat"), (CHAT, "messages"), ("/v1/messages", "messages")]
PATHS = pytest.mark.parametrize(("path", "model"), CALLERS)


def body(model: str, text: str = "Hello", **more: Any) -> bytes:
    asked = {"model": model, "max_tokens": 50, "messages": [{"role": "user", "content": text}]}
    return json.dumps({**asked, **more}).encode()


def words(world: GuardedGateway) -> str:
    """The last words that the upstream was sent."""
    return json.dumps(world.upstream.ledger[-1].json()["messages"][-1], ensure_ascii=False)


@PATHS
async def test_a_guard_sees_request_and_answer_and_both_go_on(
    stage: Stage, path: str, model: str
) -> None:
    hooks = Hooks("watch")
    async with stage(hooks, order=["watch"]) as world:
        caller = await world.send(path, body(model))
        record = await world.record(caller)
    seen, whoever = hooks.guards["watch"].seen, hooks.guards["watch"].whoever
    assert caller.status == 200
    assert GREETING in caller.body.decode()
    assert [type(one) for one in seen] == [CanonicalRequest, CanonicalResponse]
    assert (whoever[0].model, whoever[0].policy, whoever[0].relay_key) == (model, "all", "app")
    assert [(one.guard, one.phase, one.did) for one in record.guards] == [
        ("watch", "request", "allowed"),
        ("watch", "response", "allowed"),
    ]
    assert record.tokens["output"] == 9


async def test_what_no_guard_changes_goes_both_ways_byte_for_byte(stage: Stage) -> None:
    asked = (
        b'{ "model": "chat",  "messages":[{"role":"user","content":"Hello"}], "max_tokens":1e1 }'
    )
    answers = []
    for order in ([], ["watch"]):
        async with stage(Hooks("watch"), order=order) as world:
            caller = await world.send(CHAT, asked)
            answers.append((caller.status, world.upstream.ledger[-1].body, len(caller.body)))
    assert answers[0] == answers[1]
    assert answers[0][:2] == (200, asked)


@PATHS
async def test_a_changed_request_is_what_the_host_gets(stage: Stage, path: str, model: str) -> None:
    hooks = Hooks("loud", on_request=shout)
    async with stage(hooks, order=["loud"]) as world:
        caller = await world.send(path, body(model, "be brief", temperature=0.5))
        assert caller.status == 200
        assert "BE BRIEF" in words(world)
        assert world.upstream.ledger[-1].json()["temperature"] == 0.5
        record = await world.record(caller)
    assert [one.did for one in record.guards] == ["changed", "allowed"]
    assert record.bytes_in == len(body(model, "be brief", temperature=0.5))


@PATHS
async def test_a_changed_answer_is_what_the_caller_gets(
    stage: Stage, path: str, model: str
) -> None:
    hooks = Hooks("loud", on_response=shout)
    async with stage(hooks, order=["loud"]) as world:
        caller = await world.send(path, body(model))
    assert caller.status == 200
    assert GREETING.upper() in json.loads(caller.body).__repr__()
    assert caller.header_block.lower().count(b"content-type: application/json") == 1


@PATHS
async def test_a_refusal_is_in_the_format_of_the_caller_and_recorded(
    stage: Stage, path: str, model: str
) -> None:
    hooks = Hooks("strict", on_request=refuse)
    async with stage(hooks, order=["strict"]) as world:
        caller = await world.send(path, body(model))
        record = await world.record(caller)
        assert world.upstream.ledger == []
    error = json.loads(caller.body)["error"]
    assert caller.status == 403
    assert "the guard 'strict' refused this request: it is of no use here" in error["message"]
    assert path != CHAT or error["code"] == "guard_refused"
    assert (record.outcome, record.error_code, record.status) == ("rejected", "guard_refused", 403)
    assert record.guards[0].did == "refused"


@PATHS
async def test_a_refused_answer_is_paid_for_and_not_shown(
    stage: Stage, path: str, model: str
) -> None:
    hooks = Hooks("strict", on_response=refuse)
    async with stage(hooks, order=["strict"]) as world:
        caller = await world.send(path, body(model))
        record = await world.record(caller)
    assert caller.status == 403
    assert GREETING not in caller.body.decode()
    assert (record.outcome, record.error_code) == ("rejected", "guard_refused")
    assert record.tokens["output"] == 9


@PATHS
async def test_a_stream_is_changed_as_it_comes(stage: Stage, path: str, model: str) -> None:
    hooks = Hooks("loud", on_event=loud_event)
    async with stage(hooks, order=["loud"]) as world:
        caller = await world.send(path, body(model, stream=True))
        record = await world.record(caller)
    assert (caller.status, caller.aborted) == (200, False)
    assert "text/event-stream" in caller.header_block.decode()
    text = _text_of(caller.body)
    assert text == GREETING.upper()
    assert [(one.phase, one.did) for one in record.guards] == [
        ("request", "allowed"),
        ("stream", "changed"),
    ]
    assert (record.outcome, record.tokens["output"]) == ("ok", 9)


@PATHS
async def test_a_refused_stream_ends_with_an_error_and_a_broken_connection(
    stage: Stage, path: str, model: str
) -> None:
    def at_text(event: Any) -> Any:
        return refuse(event) if "text" in getattr(event, "__struct_fields__", ()) else None

    hooks = Hooks("strict", on_event=at_text)
    async with stage(hooks, order=["strict"]) as world:
        caller = await world.send(path, body(model, stream=True))
        record = await world.record(caller)
    assert (caller.status, caller.aborted) == (200, True)
    assert _text_of(caller.body) == ""
    assert b"the guard 'strict' refused the answer: it is of no use here" in caller.body
    assert (record.outcome, record.error_code) == ("rejected", "guard_refused")
    assert record.guards[-1].did == "refused"


async def test_guards_are_asked_in_order_and_see_what_those_before_made(stage: Stage) -> None:
    hooks = Hooks("first", "second", on_request=shout)
    async with stage(hooks, order=["second", "first"]) as world:
        caller = await world.send(CHAT, body("chat", "quiet"))
        record = await world.record(caller)
    assert hooks.guards["second"].seen[0].messages[0].parts[0].text == "quiet"
    assert hooks.guards["first"].seen[0].messages[0].parts[0].text == "QUIET"
    assert [one.guard for one in record.guards] == ["second", "first", "second", "first"]


@pytest.mark.parametrize("way", Way, ids=str)
@pytest.mark.parametrize("phase", ["request", "response", "stream"])
@pytest.mark.parametrize("policy", ["open", "closed"])
async def test_a_guard_that_misbehaves_does_to_requests_what_its_section_says(
    stage: Stage, way: Way, phase: str, policy: str
) -> None:
    if phase == "stream":
        spoilt = Hooks("broken", on_event=lambda _event: misbehave(way))
    else:
        spoilt = Hooks("broken", **{f"on_{phase}": lambda _content: misbehave_awaited(way)})
    asked = body("chat", stream=phase == "stream")
    async with stage(Hooks("broken"), order=["broken"]) as world:
        assert (await world.send(CHAT, asked)).status == 200
    async with stage(spoilt, ["broken"], {"broken": {"on_failure": policy}}) as world:
        before = _failures(world, "broken")
        caller = await world.send(CHAT, asked)
        record = await world.record(caller)
        assert _failures(world, "broken") == before + 1
    visit = [one for one in record.guards if one.phase == phase][-1]
    assert (visit.did, caller.aborted) == ("failed", phase == "stream" and policy == "closed")
    assert record.outcome == ("ok" if policy == "open" else "rejected")
    assert policy == "open" or b"guard_unavailable" in caller.body


async def test_a_guard_that_fails_in_a_stream_ends_it_or_lets_it_go_on(stage: Stage) -> None:
    hooks = Hooks("open", "closed", on_event=fail)
    sections = {"open": {"on_failure": "open"}, "closed": {"policies": ["none"]}}
    order = ["open", "closed"]
    async with stage(hooks, order=order, guards=sections) as world:
        caller = await world.send(CHAT, body("chat", stream=True))
        assert (caller.aborted, _text_of(caller.body)) == (False, GREETING)
        world.gateway.guards.begin(["closed"])
        policy = await world.create("policies", "none", models=["*"])
        key = await world.mint(policy, "other")
        await world.gateway.watcher.refresh()
        caller = await world.send(CHAT, body("chat", stream=True), key=key)
        assert caller.aborted
        assert b"could not judge the answer" in caller.body


async def test_a_dry_run_changes_nothing_and_tells_what_it_would_have_done(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    hooks = Hooks("strict", "loud", on_response=shout, on_event=refuse)
    hooks.guards["strict"].on_request = staticmethod(refuse)
    sections = {"strict": {"dry_run": True}, "loud": {"dry_run": True}}
    caplog.set_level("INFO", "relay_gateway.pipeline.guarding")
    order = ["strict", "loud"]
    async with stage(hooks, order=order, guards=sections) as world:
        caller = await world.send(CHAT, body("chat"))
        record = await world.record(caller)
        streamed = await world.send(CHAT, body("chat", stream=True))
        samples = {one.labels: one.value for one in _decisions(world)}
    assert (caller.status, GREETING in caller.body.decode()) == (200, True)
    assert (streamed.aborted, _text_of(streamed.body)) == (False, GREETING)
    assert {one.dry_run for one in record.guards} == {True}
    assert samples["strict", "request", "refused", "true"] == 2
    assert samples["loud", "stream", "refused", "true"] == 1
    assert "would have refused the request" in caplog.text


async def test_scope_decides_which_requests_a_guard_looks_at(stage: Stage) -> None:
    hooks = Hooks("scoped", on_request=refuse)
    sections = {"scoped": {"endpoints": ["messages"]}}
    async with stage(hooks, order=["scoped"], guards=sections) as world:
        assert (await world.send(CHAT, body("chat"))).status == 200
        assert (await world.send("/v1/messages", body("messages"))).status == 403
        assert (await world.send("/v1/embeddings", EMBEDDINGS)).status == 200


EMBEDDINGS = b'{"model":"chat","input":"Hello"}'


@pytest.mark.parametrize("policy", ["open", "closed"])
async def test_what_has_no_neutral_form_goes_on_or_is_refused(stage: Stage, policy: str) -> None:
    hooks = Hooks("watch")
    sections = {"watch": {"on_failure": policy}}
    async with stage(hooks, order=["watch"], guards=sections) as world:
        caller = await world.send("/v1/embeddings", EMBEDDINGS)
        record = await world.record(caller)
    assert caller.status == (200 if policy == "open" else 403)
    assert [(one.phase, one.did) for one in record.guards] == [("request", "unreadable")]
    assert hooks.guards["watch"].seen == []


async def test_members_that_come_twice_are_no_way_past_a_guard(stage: Stage) -> None:
    hooks = Hooks("watch")
    twice = b'{"model":"chat","messages":[{"role":"user","content":"bad","content":"good"}]}'
    async with stage(hooks, order=["watch"]) as world:
        caller = await world.send(CHAT, twice)
        assert world.upstream.ledger == []
    assert caller.status == 403
    assert b"there twice" in caller.body


async def test_an_answer_in_a_stream_is_refused_before_a_host_is_asked_if_nobody_can_read_it(
    stage: Stage,
) -> None:
    hooks = Hooks("whole", reads_streams=False)
    async with stage(hooks, order=["whole"]) as world:
        caller = await world.send(CHAT, body("chat", stream=True))
        assert world.upstream.ledger == []
        assert (await world.send(CHAT, body("chat"))).status == 200
    assert caller.status == 403
    assert b"cannot read an answer in a stream" in caller.body


async def test_a_stream_that_nobody_asked_for_is_none_that_a_guard_can_read(stage: Stage) -> None:
    hooks = Hooks("whole", reads_streams=False)
    streaming = body("chat", stream=True)

    def unasked(request: SeenRequest) -> Script:
        return speak(replace(request, body=streaming))

    for policy, status in (("closed", 403), ("open", 200)):
        async with stage(hooks, ["whole"], {"whole": {"on_failure": policy}}) as world:
            world.upstream.answer = unasked
            caller = await world.send(CHAT, body("chat"))
            world.upstream.answer = speak
        assert (caller.status, caller.aborted) == (status, False)
        assert (_text_of(caller.body) == GREETING) is (policy == "open")


def _failures(world: GuardedGateway, name: str) -> int:
    (shown,) = [one for one in world.gateway.plugins.inventory() if one.name == name]
    return shown.failures


def _decisions(world: GuardedGateway) -> list[Any]:
    return [one for one in world.gateway.series() if one.family == "relay_guard_decisions_total"]


def _text_of(stream: bytes) -> str:
    """What a stream says, in the format of chat completions or of messages."""
    text = ""
    for line in stream.decode().splitlines():
        if not line.startswith("data: {"):
            continue
        event = json.loads(line[6:])
        for choice in event.get("choices", ()):
            text += choice["delta"].get("content") or ""
        if event.get("type") == "content_block_delta":
            text += event["delta"].get("text", "")
    return text
