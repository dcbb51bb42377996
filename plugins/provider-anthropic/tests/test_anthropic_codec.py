"""The codec of Messages: what every codec promises, and what is special about it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.errors import RequestRefusedError
from relay_gateway.plugin import EncodeOptions, WireCodec
from relay_gateway.plugin.canonical import (
    ArgumentsDelta,
    CanonicalRequest,
    Failed,
    Message,
    PartStarted,
    PartStopped,
    ReasoningOptions,
    Started,
    StreamEvent,
    ToolCall,
    ToolResult,
)
from relay_gateway.plugin.canonical.features import Feature
from relay_gateway.testing.answer_pieces import read_stream
from relay_gateway.testing.conformance import CodecConformance, ConversationSample
from relay_gateway.testing.conformance.codecs import context
from relay_gateway.testing.conversations import NAMES, request
from relay_gateway_provider_anthropic.messages_codec import MessagesCodec

HERE = Path(__file__).parent
DEFAULTS = frozenset({"custom", "direct"})
FREE = frozenset({"input", "input_schema", "schema"})


class TestMessagesCodec(CodecConformance):
    @pytest.fixture
    def codec(self) -> WireCodec:
        return MessagesCodec()

    @pytest.fixture
    def conversations(self) -> Sequence[ConversationSample]:
        paths = sorted((HERE / "conversations").glob("*.json"))
        return [
            ConversationSample(path.stem, path.read_bytes(), defaults=DEFAULTS, free=FREE)
            for path in paths
        ]

    @pytest.fixture
    def recorded_streams(self) -> Sequence[bytes]:
        names = ("text", "thinking_and_tool", "compatible_host")
        return [(HERE / "answers" / f"{name}.sse").read_bytes() for name in names]


def encoded(asked: CanonicalRequest, **options: int) -> tuple[dict[str, Any], tuple[str, ...]]:
    done = MessagesCodec().encode_request(asked, "m", EncodeOptions(**options))
    return json.loads(done.body), done.dropped


def test_a_limit_is_always_said_because_the_api_wants_one() -> None:
    assert encoded(request())[0]["max_tokens"] == 4096
    assert encoded(request(), max_output_tokens=64_000)[0]["max_tokens"] == 64_000
    assert encoded(request(max_output_tokens=7), max_output_tokens=64_000)[0]["max_tokens"] == 7


def test_temperature_is_at_most_one_and_left_out_beside_thinking() -> None:
    assert encoded(request(temperature=1.7))[0]["temperature"] == 1
    body, dropped = encoded(request(temperature=0.2, reasoning=ReasoningOptions(effort="high")))
    assert "temperature" not in body
    assert dropped == (NAMES[Feature.TEMPERATURE],)


def test_a_thinking_budget_stays_below_the_limit() -> None:
    options = ReasoningOptions("on", budget=10_000)
    body, _ = encoded(request(reasoning=options, max_output_tokens=4000))
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 3999}


def test_ids_in_foreign_letters_are_changed_alike_for_call_and_result() -> None:
    asked = request(
        Message(
            "assistant", (ToolCall("functions.f:0", "f", ""), ToolCall("functions.f;0", "f", ""))
        ),
        Message("tool", (ToolResult("functions.f:0", ()),)),
    )
    turns = encoded(asked)[0]["messages"]
    ids = [block["id"] for block in turns[0]["content"]]
    assert turns[1]["content"][0]["tool_use_id"] == ids[0]
    assert ids[0] != ids[1]
    assert all(re.fullmatch(r"[A-Za-z0-9_-]+", each) for each in ids)


def test_arguments_that_are_no_object_are_refused_and_not_repaired() -> None:
    asked = request(Message("assistant", (ToolCall("c", "f", '{"a":'),)))
    with pytest.raises(RequestRefusedError, match="no JSON object"):
        MessagesCodec().encode_request(asked, "m")


def test_parallel_calls_are_streamed_live_when_they_come_one_after_the_other() -> None:
    encoder = MessagesCodec().stream_encoder(context())
    first, second = ToolCall("a", "f", ""), ToolCall("b", "g", "")
    events: list[StreamEvent] = [Started("i", "m"), PartStarted(0, first)]
    events += [ArgumentsDelta(0, "{}"), PartStopped(0)]
    events += [PartStarted(1, second), ArgumentsDelta(1, '{"x"')]
    assert all(encoder.encode(event) for event in events), "nothing had to wait"


def test_a_later_call_waits_while_an_earlier_one_is_written() -> None:
    encoder = MessagesCodec().stream_encoder(context())
    first, second = ToolCall("a", "f", ""), ToolCall("b", "g", "")
    for event in (Started("i", "m"), PartStarted(0, first), ArgumentsDelta(0, "{")):
        assert encoder.encode(event)
    assert encoder.encode(PartStarted(1, second)) == b""
    assert encoder.encode(ArgumentsDelta(1, "{}")) == b""
    freed = encoder.encode(PartStopped(0))
    kinds = re.findall(rb"event: (\w+)", freed)
    assert kinds == [b"content_block_stop", b"content_block_start", b"content_block_delta"]


def test_blocks_of_server_tools_are_named_as_dropped() -> None:
    block = {"type": "web_search_tool_result", "tool_use_id": "x", "content": []}
    body = {"content": [block, {"type": "text", "text": "Hi", "citations": [{"a": 1}]}]}
    answer = MessagesCodec().decode_response(json.dumps(body).encode())
    assert answer.dropped == ("content[].web_search_tool_result", "content[].citations")


def test_f47_an_error_inside_a_stream_keeps_its_type_and_words() -> None:
    data = (HERE / "answers" / "overloaded.sse").read_bytes()
    events = read_stream(MessagesCodec().stream_decoder(), [data])
    assert isinstance(events[-1], Failed)
    assert (events[-1].status, events[-1].code) == (529, "overloaded_error")
