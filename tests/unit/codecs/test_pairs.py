"""All sixteen pairs of formats: what a caller says reaches the other side, and what comes back is
the same answer, with everything its provider wants to see again."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from relay_gateway.errors import RequestRefusedError
from relay_gateway.plugin import AnswerContext, WireCodec
from relay_gateway.plugin.canonical import (
    SEAL_PREFIX,
    CanonicalRequest,
    CanonicalResponse,
    Image,
    Message,
    Reasoning,
    Text,
    Tool,
    ToolCall,
    ToolResult,
)
from relay_gateway.testing.answer_pieces import assembled, read_stream
from relay_gateway.testing.conformance import ConversationSample
from relay_gateway.testing.conformance.codecs import (
    assert_same,
    context,
    decoded,
    stream_of,
    texts_of,
)
from relay_gateway.testing.conversations import ANSWERS, TWO_CALLS, answers, request, requests
from relay_gateway_provider_anthropic.messages_codec import MessagesCodec
from relay_gateway_provider_gemini.codec import GenerateCodec
from relay_gateway_provider_openai.chat_codec import ChatCodec
from relay_gateway_provider_openai.responses_codec import ResponsesCodec

PLUGINS = Path(__file__).parents[3] / "plugins"
CODECS: dict[str, WireCodec] = {
    "chat": ChatCodec(),
    "responses": ResponsesCodec(),
    "messages": MessagesCodec(),
    "gemini": GenerateCodec(),
}
PAIRS = [(source, target) for source in CODECS for target in CODECS]
_PLACES = {
    "chat": ("provider-openai", "chat_"),
    "responses": ("provider-openai", "responses_"),
    "messages": ("provider-anthropic", ""),
    "gemini": ("provider-gemini", ""),
}


def conversations(name: str) -> dict[str, ConversationSample]:
    """The recorded conversations in one format, by name."""
    plugin, prefix = _PLACES[name]
    paths = sorted((PLUGINS / plugin / "tests" / "conversations").glob(f"{prefix}*.json"))
    assert paths, f"no conversations of {name}"
    return {
        path.stem.removeprefix(prefix): ConversationSample(path.stem, path.read_bytes(), "m", True)
        for path in paths
    }


def recorded(plugin: str, name: str) -> bytes:
    """A recorded answer of a provider."""
    return (PLUGINS / plugin / "tests" / "answers" / name).read_bytes()


EVERY_PAIR = pytest.mark.parametrize(
    ("source", "target"), PAIRS, ids=["-to-".join(pair) for pair in PAIRS]
)


@EVERY_PAIR
def test_a_conversation_reaches_the_other_format_or_is_refused_by_field(
    source: str, target: str
) -> None:
    for name, sample in conversations(source).items():
        asked = decoded(CODECS[source], sample)
        try:
            encoded = CODECS[target].encode_request(asked, "upstream-model")
        except RequestRefusedError as error:
            assert source != target, name
            assert error.status == 400
            assert error.param, f"{name}: {error}"
            continue
        there = CODECS[target].decode_request(encoded.body, model="m", streamed=asked.stream)
        arrived = "\n".join(texts_of(there))
        assert [text for text in texts_of(asked) if text not in arrived] == [], name
        assert _tools(there) == _tools(asked)
        assert there.stream == asked.stream or target == "gemini"


REFUSALS = [
    ("chat", "native", "messages[0].content[0].type"),
    ("chat", "media", "logit_bias"),
    ("responses", "native", "previous_response_id"),
    ("messages", "native", "messages[1].content[0].type"),
    ("gemini", "native", "contents[0].parts[0]"),
]


@pytest.mark.parametrize(("source", "sample", "field"), REFUSALS)
def test_what_only_one_provider_knows_is_never_sent_to_another(
    source: str, sample: str, field: str
) -> None:
    asked = decoded(CODECS[source], conversations(source)[sample])
    assert CODECS[source].encode_request(asked, "m").dropped == ()
    for target, codec in CODECS.items():
        if target == source:
            continue
        with pytest.raises(RequestRefusedError) as refused:
            codec.encode_request(asked, "m")
        paths = [unheld.path for unheld in asked.origin.unheld if not unheld.advisory]
        assert refused.value.param in [*paths, "logit_bias", "logprobs"]
        assert field in [*paths, "logit_bias"]


def _tools(asked: CanonicalRequest) -> list[tuple[str, object]]:
    return [(tool.name, tool.description) for tool in asked.tools if isinstance(tool, Tool)]


STATEFUL = ("previous_response_id", "conversation", "prompt", "background")


@pytest.mark.parametrize("member", STATEFUL)
def test_stored_state_is_refused_by_its_name(member: str) -> None:
    values: dict[str, object] = {"prompt": {"id": "pmpt_1"}, "background": True}
    body = {"model": "m", "input": "Hi", member: values.get(member, "id_1")}
    asked = CODECS["responses"].decode_request(json.dumps(body).encode())
    for target in ("chat", "messages", "gemini"):
        with pytest.raises(RequestRefusedError, match=member) as refused:
            CODECS[target].encode_request(asked, "m")
        assert refused.value.param == member


@EVERY_PAIR
@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_comes_back_through_both_codecs(source: str, target: str, name: str) -> None:
    told = CODECS[target].encode_response(ANSWERS[name], context())
    upstream = CODECS[target].decode_response(told)
    shown = CODECS[source].encode_response(upstream, context())
    assert_words(CODECS[source].decode_response(shown), ANSWERS[name])


@EVERY_PAIR
@pytest.mark.parametrize("name", ANSWERS)
def test_a_stream_comes_back_through_both_codecs(source: str, target: str, name: str) -> None:
    body = stream_of(CODECS[target], ANSWERS[name])
    shown = translated(source, target, body)
    assert_words(assembled(read_stream(CODECS[source].stream_decoder(), [shown])), ANSWERS[name])


@EVERY_PAIR
@settings(max_examples=10, deadline=None)
@given(told=answers(), piece=st.integers(1, 9), interleaved=st.booleans())
def test_generated_streams_come_back_through_both_codecs(
    source: str, target: str, told: CanonicalResponse, piece: int, interleaved: bool
) -> None:
    body = stream_of(CODECS[target], told, piece, interleaved=interleaved)
    shown = translated(source, target, body)
    assert_words(assembled(read_stream(CODECS[source].stream_decoder(), [shown])), told)


@EVERY_PAIR
@settings(max_examples=10, deadline=None)
@given(asked=requests())
def test_generated_requests_cross_with_every_word(
    source: str, target: str, asked: CanonicalRequest
) -> None:
    try:
        first = CODECS[source].encode_request(asked, "m")
        read = CODECS[source].decode_request(first.body, model="m", streamed=asked.stream)
        second = CODECS[target].encode_request(read, "m")
    except RequestRefusedError as error:
        assert error.param
        return
    there = CODECS[target].decode_request(second.body, model="m", streamed=asked.stream)
    assert texts_of(there) == texts_of(asked)
    assert _images(there) == _images(asked)


def _images(asked: CanonicalRequest) -> list[object]:
    return [
        getattr(part.source, "url", None) or getattr(part.source, "data", None)
        for message in asked.messages
        for part in message.parts
        if isinstance(part, Image)
    ]


def translated(
    source: str, target: str, body: bytes, asked: CanonicalRequest | None = None
) -> bytes:
    """A stream of ``target`` as a caller of ``source`` gets to see it."""
    encoder = CODECS[source].stream_encoder(context(asked))
    events = read_stream(CODECS[target].stream_decoder(), [body])
    return b"".join(encoder.encode(event) for event in events)


def assert_words(found: CanonicalResponse, wanted: CanonicalResponse) -> None:
    """As :func:`assert_same`, but the reasoning is sealed by now."""
    bare = [part for part in wanted.parts if not isinstance(part, Reasoning)]
    left = [part for part in found.parts if not isinstance(part, Reasoning)]
    assert_same(
        CanonicalResponse(
            id=found.id, model=found.model, parts=tuple(left), stop=found.stop, usage=found.usage
        ),
        CanonicalResponse(
            id=wanted.id,
            model=wanted.model,
            parts=tuple(bare),
            stop=wanted.stop,
            usage=wanted.usage,
        ),
    )
    shown = [
        "".join(part.summary or part.content) for part in found.parts if isinstance(part, Reasoning)
    ]
    meant = ["".join(part.summary) for part in wanted.parts if isinstance(part, Reasoning)]
    assert shown == meant


def _chat_turn(body: dict[str, Any]) -> dict[str, Any]:
    message = body["choices"][0]["message"]
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": "fine"}
        for call in message.get("tool_calls", ())
    ]
    return {"messages": [{"role": "user", "content": "Hi"}, message, *results]}


def _responses_turn(body: dict[str, Any]) -> dict[str, Any]:
    results = [
        {"type": "function_call_output", "call_id": item["call_id"], "output": "fine"}
        for item in body["output"]
        if item["type"] == "function_call"
    ]
    return {"input": [{"role": "user", "content": "Hi"}, *body["output"], *results]}


def _messages_turn(body: dict[str, Any]) -> dict[str, Any]:
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "fine"}
        for block in body["content"]
        if block["type"] == "tool_use"
    ]
    turns: list[dict[str, Any]] = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": body["content"]},
    ]
    turns.append({"role": "user", "content": results or "Go on"})
    return {"messages": turns, "max_tokens": 9}


def _gemini_turn(body: dict[str, Any]) -> dict[str, Any]:
    content = body["candidates"][0]["content"]
    results: list[dict[str, Any]] = [
        {
            "functionResponse": {
                "id": part["functionCall"]["id"],
                "name": part["functionCall"]["name"],
                "response": {"result": "fine"},
            }
        }
        for part in content["parts"]
        if "functionCall" in part
    ]
    first = {"role": "user", "parts": [{"text": "Hi"}]}
    last = {"role": "user", "parts": results or [{"text": "Go on"}]}
    return {"contents": [first, content, last]}


FOLLOW_UPS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "chat": _chat_turn,
    "responses": _responses_turn,
    "messages": _messages_turn,
    "gemini": _gemini_turn,
}
SIGNED = {
    "messages": ("provider-anthropic", "thinking_and_tool.sse", b"EqQBCgIYAhIM1gbcDa9GJwZA2b3h"),
    "gemini": ("provider-gemini", "tools.sse", b"CpIBAVSoXO4="),
    "responses": ("provider-openai", "responses_reasoning.sse", b"gAAAAABn0Pa/Q+opaque=="),
    "chat": ("provider-openai", "chat_reasoning.sse", b"b3BhcXVl+/=="),
}


@EVERY_PAIR
def test_signatures_come_back_to_their_provider_byte_for_byte(source: str, target: str) -> None:
    plugin, name, signature = SIGNED[target]
    events = read_stream(CODECS[target].stream_decoder(), [recorded(plugin, name)])
    shown = CODECS[source].encode_response(assembled(events), context())
    follow_up = FOLLOW_UPS[source](json.loads(shown)) | {"model": "m"}
    asked = CODECS[source].decode_request(json.dumps(follow_up).encode(), model="m")
    sent = CODECS[target].encode_request(asked, "m")
    assert sent.body.replace(b"\\/", b"/").count(signature) == 1
    for other in CODECS.keys() - {target}:
        encoded = CODECS[other].encode_request(asked, "m")
        assert signature not in encoded.body, f"{other} cannot read it"
        assert SEAL_PREFIX.encode() not in encoded.body, "what is sealed is for the gateway only"
        assert encoded.dropped, "left out, and said so"


@pytest.mark.parametrize("target", CODECS)
def test_signatures_that_were_streamed_come_back_too(target: str) -> None:
    plugin, name, signature = SIGNED[target]
    for source, codec in CODECS.items():
        streamed = translated(source, target, recorded(plugin, name))
        seen = assembled(read_stream(codec.stream_decoder(), [streamed]))
        turns = (Message("user", (Text("Hi"),)), Message("assistant", seen.parts))
        own = codec.encode_request(request(*turns), "m")
        asked = codec.decode_request(own.body, model="m")
        sent = CODECS[target].encode_request(asked, "m")
        assert sent.body.count(signature) == 1, source


@EVERY_PAIR
def test_results_of_parallel_tools_stay_with_their_calls(source: str, target: str) -> None:
    asked = request(
        Message("user", (Text("Both"),)),
        Message("assistant", TWO_CALLS),
        Message("tool", (ToolResult("call_1", (Text("sunny"),)),)),
        Message("tool", (ToolResult("call_2", (Text("noon"),)),)),
        Message("user", (Text("Thanks"),)),
    )
    first = CODECS[source].encode_request(asked, "m")
    second = CODECS[target].encode_request(
        CODECS[source].decode_request(first.body, model="m"), "m"
    )
    there = CODECS[target].decode_request(second.body, model="m")
    parts = [part for message in there.messages for part in message.parts]
    calls = [part.id for part in parts if isinstance(part, ToolCall)]
    results = {part.call_id: part.parts for part in parts if isinstance(part, ToolResult)}
    assert calls == ["call_1", "call_2"]
    assert results == {"call_1": (Text("sunny"),), "call_2": (Text("noon"),)}


@EVERY_PAIR
def test_usage_with_cache_and_reasoning_is_told_in_the_callers_terms(
    source: str, target: str
) -> None:
    told = CODECS[target].decode_response(
        CODECS[target].encode_response(ANSWERS["text"], context())
    )
    shown = CODECS[source].decode_response(CODECS[source].encode_response(told, context()))
    usage = shown.usage
    assert (usage.input, usage.output, usage.cache_read, usage.reasoning) == (30, 12, 8, 4)


@pytest.mark.parametrize("source", CODECS)
def test_a_caller_that_did_not_ask_for_usage_gets_none_in_a_chat_stream(source: str) -> None:
    asked = request(stream=True)
    asked.stream_usage = None
    encoder = CODECS[source].stream_encoder(AnswerContext(asked, "1", 1))
    events = read_stream(
        CODECS["chat"].stream_decoder(), [stream_of(CODECS["chat"], ANSWERS["text"])]
    )
    body = b"".join(encoder.encode(event) for event in events)
    assert (b"prompt_tokens" in body) is False
    assert b"usage" in body or source == "chat"
