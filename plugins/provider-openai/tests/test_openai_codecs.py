"""The codecs of the OpenAI formats: what every codec promises, and what is special about them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.errors import UpstreamProtocolError
from relay_gateway.plugin import WireCodec
from relay_gateway.plugin.canonical import (
    ArgumentsDelta,
    Failed,
    Finished,
    PartStarted,
    PartStopped,
    ReasoningDelta,
    ReasoningOptions,
    Signed,
    StreamEvent,
    TextDelta,
    ToolCall,
)
from relay_gateway.testing.conformance import CodecConformance, ConversationSample
from relay_gateway.testing.conversations import request
from relay_gateway_provider_openai.chat_codec import ChatCodec
from relay_gateway_provider_openai.responses_codec import ResponsesCodec

HERE = Path(__file__).parent
DEFAULTS = frozenset({"completed", "fc_1", "fc_2", "msg_1", "output_text"})
FREE = frozenset({"logit_bias", "metadata", "parameters", "reasoning_details", "schema"})


def samples(prefix: str) -> list[ConversationSample]:
    paths = sorted((HERE / "conversations").glob(f"{prefix}_*.json"))
    return [
        ConversationSample(path.stem, path.read_bytes(), defaults=DEFAULTS, free=FREE)
        for path in paths
    ]


def streams(*names: str) -> list[bytes]:
    return [(HERE / "answers" / f"{name}.sse").read_bytes() for name in names]


class TestChatCodec(CodecConformance):
    @pytest.fixture
    def codec(self) -> WireCodec:
        return ChatCodec()

    @pytest.fixture
    def conversations(self) -> Sequence[ConversationSample]:
        return samples("chat")

    @pytest.fixture
    def recorded_streams(self) -> Sequence[bytes]:
        return streams("chat_text", "chat_tools")


class TestResponsesCodec(CodecConformance):
    @pytest.fixture
    def codec(self) -> WireCodec:
        return ResponsesCodec()

    @pytest.fixture
    def conversations(self) -> Sequence[ConversationSample]:
        return samples("responses")

    @pytest.fixture
    def recorded_streams(self) -> Sequence[bytes]:
        return streams("responses_text", "responses_incomplete")


def chat_events(*chunks: dict[str, Any]) -> list[StreamEvent]:
    decoder = ChatCodec().stream_decoder()
    bodies = [json.dumps({"id": "c", "model": "m"} | chunk).encode() for chunk in chunks]
    return [event for body in bodies for event in decoder.event(b"", body)]


def delta(finish: str | None = None, **members: object) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": members, "finish_reason": finish}]}


def call(index: int | None, text: str, **more: object) -> dict[str, Any]:
    return {"index": index, "function": {"arguments": text} | more} | (
        {"id": f"call_{index}"} if more else {}
    )


def test_a_call_with_complete_arguments_ends_before_the_next_one_begins() -> None:
    events = chat_events(
        delta(tool_calls=[call(0, '{"a":', name="f")]),
        delta(tool_calls=[call(0, '"}"}')]),
        delta(tool_calls=[call(1, "{", name="g")]),
    )
    assert [type(event) for event in events[-3:]] == [PartStopped, PartStarted, ArgumentsDelta]


def test_arguments_written_side_by_side_stay_open_together() -> None:
    events = chat_events(
        delta(tool_calls=[call(0, "{", name="f"), call(1, "{", name="g")]),
        delta(tool_calls=[call(0, "}"), call(1, "}")]),
        delta("tool_calls"),
    )
    assert [event.index for event in events if isinstance(event, PartStopped)] == [0, 1]


def test_more_after_complete_arguments_is_an_error_and_not_lost() -> None:
    with pytest.raises(UpstreamProtocolError):
        chat_events(delta(tool_calls=[call(0, "{}", name="f")]), delta(tool_calls=[call(0, "{}")]))


def test_calls_of_hosts_without_an_index_are_told_apart_by_their_id() -> None:
    first, second = ({"id": name, "function": {"name": name, "arguments": "{}"}} for name in "ab")
    events = chat_events(delta(tool_calls=[first]), delta(tool_calls=[second]), delta("tool_calls"))
    started = [event.part for event in events if isinstance(event, PartStarted)]
    assert [part.id for part in started if isinstance(part, ToolCall)] == ["a", "b"]


def test_a_stream_without_its_sentinel_ends_with_the_finish_reason() -> None:
    decoder = ChatCodec().stream_decoder()
    assert decoder.end() == [], "cut off before anything was said"
    decoder.event(b"", json.dumps(delta("stop", content="Hi")).encode())
    assert [type(event) for event in decoder.end()] == [Finished]
    assert decoder.end() == []


def test_f43_answers_that_are_no_completion_are_upstream_errors() -> None:
    bodies = [b"<html>", b"{}", b'{"choices":[]}', b'{"choices":[{"message":{}},{"message":{}}]}']
    for body in bodies:
        with pytest.raises(UpstreamProtocolError):
            ChatCodec().decode_response(body)
    with pytest.raises(UpstreamProtocolError):
        ResponsesCodec().decode_response(b'{"status":"failed","output":[],"error":{"code":"x"}}')


def test_f47_an_error_inside_a_stream_keeps_its_code_and_words() -> None:
    error = {"message": "slow down", "code": 429, "type": "rate_limit"}
    assert chat_events({"error": error})[-1] == Failed(429, "429", "slow down")
    event = (
        b'{"type":"response.failed","response":{"error":{"code":"server_error","message":"no"}}}'
    )
    assert ResponsesCodec().stream_decoder().event(b"", event) == [
        Failed(502, "server_error", "no")
    ]


def test_reasoning_text_that_comes_again_with_its_signature_is_told_once() -> None:
    detail = {"type": "reasoning.text", "index": 0}
    events = chat_events(
        delta(reasoning_content="Hm"),
        delta(reasoning_details=[detail | {"text": "Hm", "signature": "s"}]),
        delta("stop", content="Hi"),
    )
    assert [event.text for event in events if isinstance(event, ReasoningDelta)] == ["Hm"]
    (signed,) = [event for event in events if isinstance(event, Signed)]
    assert json.loads(signed.blob.data) == detail | {"text": "Hm", "signature": "s"}


def test_responses_items_without_deltas_are_made_up_for() -> None:
    item = {"type": "message", "content": [{"type": "output_text", "text": "Hi"}]}
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    decoder = ResponsesCodec().stream_decoder()
    events = decoder.event(b"", json.dumps(done).encode())
    assert [event.text for event in events if isinstance(event, TextDelta)] == ["Hi"]


def test_reasoning_is_asked_for_encrypted_only_where_it_is_in_play() -> None:
    plain = ResponsesCodec().encode_request(request(), "m")
    thinking = ResponsesCodec().encode_request(
        request(reasoning=ReasoningOptions(effort="low")), "m"
    )
    assert b"include" not in plain.body
    assert b"reasoning.encrypted_content" in thinking.body
    assert json.loads(plain.body)["store"] is False
