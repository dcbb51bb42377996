"""The codec of generateContent: what every codec promises, and what is special about it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from relay_gateway.errors import RequestRefusedError, UpstreamProtocolError
from relay_gateway.plugin import WireCodec
from relay_gateway.plugin.canonical import (
    Blob,
    CanonicalRequest,
    Failed,
    Message,
    Reasoning,
    Stop,
    StopKind,
    Text,
    Tool,
    ToolCall,
    ToolResult,
    seal,
)
from relay_gateway.testing.answer_pieces import assembled, read_stream
from relay_gateway.testing.conformance import CodecConformance, ConversationSample
from relay_gateway.testing.conversations import request
from relay_gateway_provider_gemini.codec import GenerateCodec
from relay_gateway_provider_gemini.request_writer import FOREIGN_CALL

HERE = Path(__file__).parent
ANSWERS = HERE / "answers"
DEFAULTS = frozenset({"user"})
FREE = frozenset(
    {"args", "labels", "parameters", "parametersJsonSchema", "response", "responseJsonSchema"}
)


class TestGenerateCodec(CodecConformance):
    @pytest.fixture
    def codec(self) -> WireCodec:
        return GenerateCodec()

    @pytest.fixture
    def conversations(self) -> Sequence[ConversationSample]:
        paths = sorted((HERE / "conversations").glob("*.json"))
        return [
            ConversationSample(
                path.stem, path.read_bytes(), "gemini-3.8-flash", True, DEFAULTS, FREE
            )
            for path in paths
        ]

    @pytest.fixture
    def recorded_streams(self) -> Sequence[bytes]:
        return [(HERE / "answers" / f"{name}.sse").read_bytes() for name in ("text", "tools")]


def sent(asked: CanonicalRequest) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(GenerateCodec().encode_request(asked, "m").body)
    return body


def test_both_spellings_of_members_are_read_alike() -> None:
    camel = {"contents": [], "generationConfig": {"maxOutputTokens": 5, "topK": 3}}
    snake = {"contents": [], "generation_config": {"max_output_tokens": 5, "top_k": 3.0}}
    first, second = (
        GenerateCodec().decode_request(json.dumps(body).encode(), model="m")
        for body in (camel, snake)
    )
    assert (first.max_output_tokens, first.top_k) == (5, 3)
    assert (second.max_output_tokens, second.top_k) == (5, 3)


def test_calls_that_another_model_made_get_the_signature_that_skips_the_check() -> None:
    calls = (ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}"))
    parts = sent(request(Message("assistant", calls)))["contents"][0]["parts"]
    assert parts[0]["thoughtSignature"] == FOREIGN_CALL
    assert "thoughtSignature" not in parts[1], "only the first of parallel calls has one"


def test_ids_that_were_made_up_are_not_sent_back() -> None:
    events = read_stream(GenerateCodec().stream_decoder(), [(ANSWERS / "tools.sse").read_bytes()])
    calls = [part for part in assembled(events).parts if isinstance(part, ToolCall)]
    assert [call.id for call in calls] == ["fc-1", "relay_call_rid-1_1"]
    results = tuple(Message("tool", (ToolResult(call.id, (Text("fine"),)),)) for call in calls)
    contents = sent(request(Message("assistant", tuple(calls)), *results))["contents"]
    responses = [part["functionResponse"] for part in contents[1]["parts"]]
    assert [response.get("id") for response in responses] == ["fc-1", None]
    assert [response["name"] for response in responses] == ["get_weather", "get_time"]


def test_a_result_without_its_call_is_refused() -> None:
    asked = request(Message("tool", (ToolResult("lost", (Text("fine"),)),)))
    with pytest.raises(RequestRefusedError, match="lost"):
        GenerateCodec().encode_request(asked, "m")


def test_schemas_of_the_api_become_json_schemas() -> None:
    asked = GenerateCodec().decode_request(
        (HERE / "conversations" / "tools.json").read_bytes(), model="m"
    )
    declared = [tool.parameters for tool in asked.tools if isinstance(tool, Tool)]
    assert declared[1] == {
        "type": "object",
        "properties": {"city": {"type": ["string", "null"]}},
        "required": ["city"],
    }


def test_a_blocked_prompt_is_a_refusal() -> None:
    data = (ANSWERS / "blocked.sse").read_bytes()
    told = assembled(read_stream(GenerateCodec().stream_decoder(), [data]))
    assert told.stop == Stop(StopKind.REFUSAL, detail="PROHIBITED_CONTENT")


def test_f43_an_answer_that_broke_is_an_upstream_error() -> None:
    broken = b'{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}'
    for body in (broken, b"{}", b'{"candidates":[{},{}]}'):
        with pytest.raises(UpstreamProtocolError):
            GenerateCodec().decode_response(body)


def test_f47_an_error_inside_a_stream_keeps_its_status_and_words() -> None:
    data = (ANSWERS / "error.sse").read_bytes()
    events = read_stream(GenerateCodec().stream_decoder(), [data])
    assert events[-1] == Failed(503, "UNAVAILABLE", "The model is overloaded.")


def test_signatures_of_others_are_about_all_thoughts_before_them() -> None:
    sealed = seal(Blob("acme.talk", "signed"))
    parts = [
        {"text": "Hm", "thought": True},
        {"text": "m.", "thought": True},
        {"text": "", "thought": True, "thoughtSignature": sealed},
        {"text": "Hi"},
    ]
    body = {"contents": [{"role": "model", "parts": parts}]}
    asked = GenerateCodec().decode_request(json.dumps(body).encode(), model="m")
    assert asked.messages[0].parts == (
        Reasoning(("Hmm.",), blob=Blob("acme.talk", "signed")),
        Text("Hi"),
    )
