"""All sixteen pairs of caller's and upstream's format over real sockets, whole and streamed."""

from __future__ import annotations

import json

from relay_gateway.plugin.canonical import (
    Base64,
    CanonicalRequest,
    Document,
    Image,
    JsonOutput,
    Message,
    Part,
    Reasoning,
    StopKind,
    Text,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from relay_gateway.testing.conversations import CLOCK, PDF, PIXEL, SCHEMA, WEATHER, request
from relay_gateway.testing.polyglot import HOST_SECRET, Polyglot
from relay_gateway.testing.speakers.scene import ARGUMENTS, GREETING, SIGNATURE, THOUGHT

from .spoken import ASKERS, BOTH_WAYS, EVERY_PAIR, FORMATS

TOKENS = {"input": 20, "output": 9, "cacheRead": 5, "reasoning": 3}
COST = 15 * 2_000 + 5 * 1_000 + 9 * 10_000
"""In nano-units, by the rates of the world."""


def said(*parts: Part | str, **options: object) -> CanonicalRequest:
    """A request with one message of the user."""
    content = tuple(Text(part) if isinstance(part, str) else part for part in parts)
    options.setdefault("max_output_tokens", 256)
    return request(Message("user", content), **options)


@EVERY_PAIR
@BOTH_WAYS
def test_text_usage_and_the_end_arrive_and_are_recorded(
    world: Polyglot, source: str, target: str, *, streamed: bool
) -> None:
    asker = ASKERS[source]
    answer = asker.ask(world, target, said("Hello", stream=streamed, stream_usage=True))
    told = asker.read(answer, streamed=streamed)
    assert told.parts == (Text(GREETING),)
    assert told.stop.kind is StopKind.END
    usage = told.usage
    assert (usage.input, usage.output, usage.cache_read, usage.reasoning) == (20, 9, 5, 3)
    record = world.log(answer.request_id)
    kept = {name: value for name, value in record["tokens"].items() if value}
    assert (kept, record["costNanos"], record["unpriced"]) == (TOKENS, COST, False)
    assert record["wireFormat"] == FORMATS[source].name
    assert record["upstreamWireFormat"] == FORMATS[target].name
    assert (record["outcome"], record["streamed"], record["status"]) == ("ok", streamed, 200)
    assert record["finishReason"] in ("stop", "completed", "end_turn", "STOP")
    assert record["usageSource"] == "upstream"
    assert (record["ttftMs"] is not None) == streamed


@EVERY_PAIR
@BOTH_WAYS
def test_parallel_tool_calls_and_signed_thoughts_make_the_round(
    world: Polyglot, source: str, target: str, *, streamed: bool
) -> None:
    asker = ASKERS[source]
    first = said("think", tools=(WEATHER, CLOCK), stream=streamed, max_output_tokens=4096)
    told = asker.read(asker.ask(world, target, first), streamed=streamed)
    calls = [part for part in told.parts if isinstance(part, ToolCall)]
    assert {call.name: json.loads(call.arguments) for call in calls} == ARGUMENTS
    assert told.stop.kind is StopKind.TOOL_CALLS
    thoughts = [part for part in told.parts if isinstance(part, Reasoning)]
    assert "".join(text for one in thoughts for text in (*one.summary, *one.content)) == THOUGHT
    results = [
        Message("tool", (ToolResult(call.id, (Text(f"{call.name} is fine"),), name=call.name),))
        for call in calls
    ]
    turns = (*first.messages, Message("assistant", told.parts), *results)
    second = request(*turns, tools=first.tools, stream=streamed, max_output_tokens=4096)
    again = asker.read(asker.ask(world, target, second), streamed=streamed)
    assert again.parts == (
        Text(f"Tools say: get_weather is fine; get_time is fine. Signed {SIGNATURE}."),
    )


@EVERY_PAIR
@BOTH_WAYS
def test_pictures_documents_and_schemas_cross(
    world: Polyglot, source: str, target: str, *, streamed: bool
) -> None:
    asker = ASKERS[source]
    media = (Image(Base64("image/png", PIXEL)), Document(Base64("application/pdf", PDF), "a.pdf"))
    seen = asker.ask(world, target, said("Look", *media, stream=streamed))
    assert asker.read(seen, streamed=streamed).parts == (Text("I see image/png, application/pdf."),)
    wanted = said("Where", output=JsonOutput(SCHEMA, "place"), stream=streamed)
    found = asker.read(asker.ask(world, target, wanted), streamed=streamed)
    assert found.parts == (Text('{"city": "Bern"}'),)


@EVERY_PAIR
@BOTH_WAYS
def test_a_long_answer_ends_at_its_limit(
    world: Polyglot, source: str, target: str, *, streamed: bool
) -> None:
    asker = ASKERS[source]
    answer = asker.ask(world, target, said("A long story", stream=streamed))
    told = asker.read(answer, streamed=streamed)
    assert (told.parts, told.stop.kind) == ((Text("Once upon a"),), StopKind.LENGTH)


@EVERY_PAIR
def test_the_upstream_gets_its_own_credential_and_nothing_of_the_callers(
    world: Polyglot, source: str, target: str
) -> None:
    chosen = said("Hello", tools=(WEATHER,), tool_choice=ToolChoice("none"))
    ASKERS[source].ask(world, target, chosen)
    seen = world.ledger[-1]
    assert world.relay_key.encode() not in seen.raw
    assert HOST_SECRET.encode() in seen.raw
    assert seen.header("content-type") == "application/json"
    if source != target:
        assert seen.header("accept") is None
