"""Meters of the OpenAI formats on recorded answers, at every cut, and on foreign events."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay_gateway.plugin import (
    CONTENT,
    FAILED,
    LAST,
    TERMINAL,
    USAGE_ONLY,
    PluginConfig,
    Reading,
    UpstreamProvider,
    UsageMeter,
    WireFormat,
)
from relay_gateway.testing.conformance import (
    AnswerSample,
    StreamSample,
    UpstreamProviderConformance,
)
from relay_gateway.testing.context import plugin_context
from relay_gateway_provider_openai.formats import (
    ChatFormat,
    CompletionsFormat,
    EmbeddingsFormat,
    ResponsesFormat,
)
from relay_gateway_provider_openai.provider import OpenAIProvider

TEXT_FORMATS = (ChatFormat, ResponsesFormat, CompletionsFormat, EmbeddingsFormat)
ANSWERS = Path(__file__).parent / "answers"

Event = tuple[bytes, bytes]
END = TERMINAL | LAST

STREAMS: dict[str, tuple[type[WireFormat], Reading, list[int]]] = {
    "chat_text": (
        ChatFormat,
        Reading(
            {
                "input": 2006,
                "output": 300,
                "cacheRead": 1920,
                "cacheWrite": 0,
                "audioInput": 0,
                "reasoning": 128,
                "audioOutput": 0,
            },
            finish_reason="stop",
            upstream_model="gpt-6-luna-2026-09-22",
            tier="flex",
        ),
        [0, CONTENT, CONTENT, TERMINAL, USAGE_ONLY, END],
    ),
    "chat_tools": (
        ChatFormat,
        Reading(finish_reason="tool_calls", upstream_model="gpt-4.1-2025-04-14"),
        [CONTENT, CONTENT, CONTENT, TERMINAL, END],
    ),
    "chat_compatible_host": (
        ChatFormat,
        Reading({"input": 7, "output": 3}, finish_reason="length", upstream_model="local-model"),
        [0, 0, CONTENT, CONTENT | TERMINAL],
    ),
    "chat_error": (
        ChatFormat,
        Reading(upstream_model="gpt-6-luna"),
        [CONTENT, FAILED, END],
    ),
    "completion_text": (
        CompletionsFormat,
        Reading(
            {"input": 5, "output": 2},
            finish_reason="length",
            upstream_model="gpt-3.5-turbo-instruct",
        ),
        [CONTENT, CONTENT | TERMINAL, USAGE_ONLY, END],
    ),
    "responses_text": (
        ResponsesFormat,
        Reading(
            {"input": 37, "output": 11, "cacheRead": 0, "cacheWrite": 32, "reasoning": 9},
            {"searches": 2},
            finish_reason="completed",
            upstream_model="gpt-6-luna-2026-09-22",
            tier="flex",
        ),
        [0, 0, 0, 0, 0, 0, 0, CONTENT, 0, 0, 0, END],
    ),
    "responses_incomplete": (
        ResponsesFormat,
        Reading(
            {"input": 3, "output": 1},
            finish_reason="max_output_tokens",
            upstream_model="gpt-6-luna",
        ),
        [0, CONTENT, END],
    ),
    "responses_failed": (
        ResponsesFormat,
        Reading({"input": 3, "output": 0}, finish_reason="failed", upstream_model="gpt-6-luna"),
        [0, FAILED],
    ),
}

WHOLE: dict[str, tuple[type[WireFormat], Reading]] = {
    "chat": (
        ChatFormat,
        Reading(
            {
                "input": 190,
                "output": 100,
                "cacheRead": 12,
                "cacheWrite": 8,
                "audioInput": 150,
                "reasoning": 4,
                "audioOutput": 60,
            },
            finish_reason="stop",
            upstream_model="gpt-audio-mini-2025-12-15",
            tier="default",
        ),
    ),
    "completion": (
        CompletionsFormat,
        Reading(
            {"input": 5, "output": 7},
            finish_reason="length",
            upstream_model="gpt-3.5-turbo-instruct",
        ),
    ),
    "response": (
        ResponsesFormat,
        Reading(
            {"input": 328, "output": 52, "cacheRead": 320, "cacheWrite": 0, "reasoning": 40},
            finish_reason="completed",
            upstream_model="gpt-6-luna-2026-09-22",
            tier="priority",
        ),
    ),
    "embeddings": (
        EmbeddingsFormat,
        Reading({"input": 8}, upstream_model="text-embedding-3-small"),
    ),
}

# Cut in the middle, no JSON, not an object, wrong types, half a character, too deep, too large.
NOISE: Sequence[Event] = (
    (b"", b""),
    (b"ping", b"{}"),
    (b"", b'{"usage":{"prompt_tok'),
    (b"", b"<html>"),
    (b"", b"[1,2]"),
    (b"", b"null"),
    (b"", b'{"choices":{"usage":1},"model":7,"service_tier":[]}'),
    (b"", b'{"choices":[{"delta":[],"finish_reason":3}],"usage":"many"}'),
    (b"", b'{"choices":null,"usage":{"prompt_tokens":-1,"completion_tokens":1.5}}'),
    (b"", b'{"usage":{"prompt_tokens":true,"completion_tokens":99999999999999999999}}'),
    (b"", b'{"model":"\xe2\x82"}'),
    (b"", b'{"usage":' + b"[" * 4000 + b"]" * 4000 + b"}"),
    (b"", b'{"type":7,"response":[]}'),
    (b"", b'{"type":"response.unheard_of","response":{"usage":{"input_tokens":1}}}'),
)


def events_of(name: str) -> list[Event]:
    events = []
    for block in (ANSWERS / f"{name}.sse").read_bytes().strip().split(b"\n\n"):
        fields = dict(line.split(b": ", 1) for line in block.split(b"\n"))
        events.append((fields.get(b"event", b""), fields[b"data"]))
    return events


def feed(meter: UsageMeter, events: Sequence[Event]) -> list[int]:
    return [meter.event(name, data) for name, data in events]


class TestConformance(UpstreamProviderConformance):
    """The provider keeps what the base classes promise, on the recorded answers."""

    @pytest.fixture
    def provider(self, tmp_path: Path) -> UpstreamProvider:
        return OpenAIProvider(PluginConfig(), plugin_context(tmp_path))

    @pytest.fixture
    def formats(self, provider: UpstreamProvider) -> Mapping[str, WireFormat]:
        return {wire_format.name: wire_format() for wire_format in TEXT_FORMATS}

    @pytest.fixture
    def answer_samples(self) -> Sequence[AnswerSample]:
        return [
            AnswerSample(wire_format.name, (ANSWERS / f"{name}.json").read_bytes(), reading)
            for name, (wire_format, reading) in WHOLE.items()
        ]

    @pytest.fixture
    def stream_samples(self) -> Sequence[StreamSample]:
        return [
            StreamSample(
                wire_format.name,
                events_of(name),
                reading,
                [index for index, flag in enumerate(flags) if flag & USAGE_ONLY],
            )
            for name, (wire_format, reading, flags) in STREAMS.items()
            if FAILED not in flags
        ]


@pytest.mark.parametrize("name", STREAMS)
def test_recorded_stream_gives_its_figures_and_flags(name: str) -> None:
    wire_format, reading, flags = STREAMS[name]
    meter = wire_format().meter()
    assert feed(meter, events_of(name)) == flags
    assert meter.reading == reading


@pytest.mark.parametrize("name", STREAMS)
def test_f46_foreign_and_broken_events_at_every_place_change_nothing(name: str) -> None:
    wire_format, reading, flags = STREAMS[name]
    events = events_of(name)
    for cut in range(len(events) + 1):
        meter = wire_format().meter()
        before = feed(meter, events[:cut])
        assert feed(meter, NOISE) == [0] * len(NOISE)
        assert before + feed(meter, events[cut:]) == flags
        assert meter.reading == reading


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_cut_after_any_event_never_reports_more_than_the_whole(name: str) -> None:
    wire_format, reading, _ = STREAMS[name]
    events = events_of(name)
    for cut in range(len(events)):
        meter = wire_format().meter()
        feed(meter, events[:cut])
        for figure, amount in meter.reading.tokens.items():
            assert amount <= reading.tokens[figure]


@pytest.mark.parametrize("wire_format", TEXT_FORMATS)
@given(
    name=st.sampled_from([b"", b"error", b"response.completed"]),
    data=st.binary(max_size=200).filter(lambda data: b"{" not in data),
)
def test_no_event_whatever_makes_a_meter_raise(
    wire_format: type[WireFormat], name: bytes, data: bytes
) -> None:
    meter = wire_format().meter()
    assert meter.event(name, data) >= 0
    meter.body(data)
    assert meter.reading.tokens == {}


def test_f44_figures_that_are_no_counts_are_ignored_and_an_explicit_zero_is_kept() -> None:
    meter = ChatFormat().meter()
    usage = {
        "prompt_tokens": 0,
        "completion_tokens": -4,
        "prompt_tokens_details": {"cached_tokens": 1.5},
        "completion_tokens_details": "none",
    }
    meter.body(msgspec.json.encode({"choices": [], "usage": usage}))
    assert meter.reading.tokens == {"input": 0}


def test_usage_of_an_answer_with_unexpected_choices_is_still_read() -> None:
    meter = ChatFormat().meter()
    flags = meter.event(b"", b'{"choices":{},"model":"m","usage":{"prompt_tokens":3}}')
    assert flags == 0
    assert meter.reading == Reading({"input": 3}, upstream_model="m")


def test_half_a_character_in_the_text_does_not_hide_the_usage() -> None:
    meter = ChatFormat().meter()
    text = b'{"choices":[{"delta":{"content":"\xe2\x82"}}],"model":"m","usage":{"prompt_tokens":3}}'
    assert meter.event(b"", text) == 0
    assert meter.reading == Reading({"input": 3}, upstream_model="m")


def test_reasoning_left_out_of_completion_tokens_is_counted_as_output() -> None:
    usage = {
        "prompt_tokens": 32,
        "completion_tokens": 9,
        "total_tokens": 135,
        "completion_tokens_details": {"reasoning_tokens": 94},
    }
    meter = ChatFormat().meter()
    chunk = msgspec.json.encode({"choices": [], "usage": usage})
    meter.event(b"", chunk)
    meter.event(b"", chunk)
    assert meter.reading.tokens == {"input": 32, "output": 103, "reasoning": 94}


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (b"error", b'{"error":{"message":"overloaded"}}'),
        (b"error", b"not json"),
        (b"", b'{"error":"overloaded"}'),
        (b"", b'{"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}'),
    ],
)
def test_f47_errors_inside_a_chat_stream_are_failures(name: bytes, data: bytes) -> None:
    assert ChatFormat().meter().event(name, data) == FAILED


def test_f47_error_event_of_a_responses_stream_is_a_failure() -> None:
    data = b'{"type":"error","code":"server_error","message":"no","param":null,"sequence_number":3}'
    assert ResponsesFormat().meter().event(b"error", data) == FAILED
    assert ResponsesFormat().meter().event(b"", data) == FAILED


def test_streams_of_embeddings_are_not_looked_into() -> None:
    meter = EmbeddingsFormat().meter()
    assert meter.event(b"", b'{"usage":{"prompt_tokens":8}}') == 0
    assert meter.reading == Reading()
