"""Meters of the Anthropic formats on recorded answers, at every cut, and on foreign events."""

from __future__ import annotations

from collections.abc import Sequence
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
    PluginConfig,
    Reading,
    UpstreamProvider,
    UsageMeter,
)
from relay_gateway.testing.conformance import (
    AnswerSample,
    StreamSample,
    UpstreamProviderConformance,
)
from relay_gateway.testing.context import plugin_context
from relay_gateway_provider_anthropic.formats import CountTokensFormat, MessagesFormat
from relay_gateway_provider_anthropic.provider import AnthropicProvider

ANSWERS = Path(__file__).parent / "answers"

Event = tuple[bytes, bytes]

STREAMS: dict[str, tuple[Reading, list[int]]] = {
    "text": (
        Reading(
            {
                "input": 1481,
                "output": 15,
                "cacheRead": 1000,
                "cacheWrite": 156,
                "cacheWrite1h": 300,
            },
            finish_reason="end_turn",
            upstream_model="claude-haiku-5-5",
            tier="standard",
        ),
        [0, 0, 0, CONTENT, CONTENT, 0, 0, TERMINAL | LAST],
    ),
    "thinking_and_tool": (
        Reading(
            {"input": 10782, "output": 89, "cacheRead": 100, "cacheWrite": 0, "reasoning": 40},
            {"searches": 1},
            finish_reason="tool_use",
            upstream_model="claude-opus-5-5",
        ),
        [0, 0, 0, 0, 0, 0, 0, CONTENT, 0, 0, TERMINAL | LAST],
    ),
    "compatible_host": (
        Reading({"input": 4, "output": 1}, finish_reason="end_turn"),
        [CONTENT, 0, TERMINAL | LAST],
    ),
    "overloaded": (
        Reading({"input": 9, "output": 0}, upstream_model="claude-haiku-5-5"),
        [0, CONTENT, FAILED],
    ),
}

MESSAGE = Reading(
    {
        "input": 6197,
        "output": 503,
        "cacheRead": 2051,
        "cacheWrite": 2051,
        "cacheWrite1h": 0,
        "reasoning": 0,
    },
    {"searches": 0},
    finish_reason="end_turn",
    upstream_model="claude-opus-5-5",
    tier="batch",
)

NOISE: Sequence[Event] = (
    (b"", b""),
    (b"ping", b'{"type": "ping"}'),
    (b"message_start", b'{"type":"message_start","mess'),
    (b"message_start", b'{"message":[]}'),
    (b"message_start", b'{"message":{"model":7,"usage":{"input_tokens":-1}}}'),
    (b"message_delta", b'{"delta":null,"usage":{"output_tokens":1.5,"cache_creation":3}}'),
    (b"message_delta", b'{"delta":{"stop_reason":3},"usage":"none"}'),
    (b"message_delta", b'{"usage":' + b"[" * 4000 + b"]" * 4000 + b"}"),
    (b"content_block_delta", b'{"delta":{"type":"text_delta","text":"\xe2\x82"}}'),
    (b"content_block_delta", b'{"delta":{"type":["text_delta"],"text":"x"}}'),
    (b"content_block_delta", b'{"delta":{"type":"citations_delta","citation":{}}}'),
    (b"content_block_delta", b"<html>"),
    (b"unheard_of", b'{"usage":{"output_tokens":9}}'),
    (b"", b'{"type":7}'),
    (b"", b"[1]"),
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
        return AnthropicProvider(PluginConfig(), plugin_context(tmp_path))

    @pytest.fixture
    def answer_samples(self) -> Sequence[AnswerSample]:
        message = (ANSWERS / "message.json").read_bytes()
        return [
            AnswerSample("anthropic.messages", message, MESSAGE),
            AnswerSample("anthropic.count_tokens", b'{"input_tokens": 2095}', Reading()),
        ]

    @pytest.fixture
    def stream_samples(self) -> Sequence[StreamSample]:
        return [
            StreamSample("anthropic.messages", events_of(name), reading)
            for name, (reading, flags) in STREAMS.items()
            if FAILED not in flags
        ]


@pytest.mark.parametrize("name", STREAMS)
def test_recorded_stream_gives_its_figures_and_flags(name: str) -> None:
    reading, flags = STREAMS[name]
    meter = MessagesFormat().meter()
    assert feed(meter, events_of(name)) == flags
    assert meter.reading == reading


@pytest.mark.parametrize("name", STREAMS)
def test_f46_foreign_and_broken_events_at_every_place_change_nothing(name: str) -> None:
    reading, flags = STREAMS[name]
    events = events_of(name)
    for cut in range(len(events) + 1):
        meter = MessagesFormat().meter()
        before = feed(meter, events[:cut])
        assert feed(meter, NOISE) == [0] * len(NOISE)
        assert before + feed(meter, events[cut:]) == flags
        assert meter.reading == reading


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_cut_after_any_event_never_reports_more_than_the_whole(name: str) -> None:
    reading, _ = STREAMS[name]
    events = events_of(name)
    for cut in range(len(events)):
        meter = MessagesFormat().meter()
        feed(meter, events[:cut])
        for figure, amount in meter.reading.tokens.items():
            assert amount <= reading.tokens[figure]


@given(
    name=st.sampled_from([b"", b"message_start", b"message_delta", b"content_block_delta"]),
    # Binaries are sometimes made of what stands in this file, which has whole events.
    data=st.binary(max_size=200).filter(lambda data: b"{" not in data),
)
def test_no_event_whatever_makes_the_meter_raise(name: bytes, data: bytes) -> None:
    meter = MessagesFormat().meter()
    assert meter.event(name, data) == 0
    meter.body(data)
    assert meter.reading == Reading()


def test_cache_writes_are_told_from_their_breakdown_where_there_is_no_total() -> None:
    meter = MessagesFormat().meter()
    usage = {
        "input_tokens": 1,
        "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 300},
    }
    meter.body(msgspec.json.encode({"usage": usage}))
    assert meter.reading.tokens == {"input": 321, "cacheWrite": 20, "cacheWrite1h": 300}


def test_f44_figures_that_are_no_counts_are_ignored_and_an_explicit_zero_is_kept() -> None:
    meter = MessagesFormat().meter()
    usage = {"input_tokens": 0, "output_tokens": True, "cache_read_input_tokens": -5}
    meter.body(msgspec.json.encode({"usage": usage}))
    assert meter.reading.tokens == {"input": 0}


def test_f44_figures_whose_sum_is_no_count_leave_the_sum_out() -> None:
    meter = MessagesFormat().meter()
    most = (1 << 63) - 1
    usage = {"input_tokens": most, "cache_read_input_tokens": most, "output_tokens": 1}
    meter.body(msgspec.json.encode({"usage": usage}))
    assert meter.reading.tokens == {"cacheRead": most, "output": 1}


def test_f44_cumulative_figures_replace_earlier_ones() -> None:
    meter = MessagesFormat().meter()
    for output in (3, 8, 8):
        event = {"type": "message_delta", "usage": {"input_tokens": 5, "output_tokens": output}}
        meter.event(b"message_delta", msgspec.json.encode(event))
    assert meter.reading.tokens == {"input": 5, "output": 8}


def test_f47_an_error_event_without_readable_data_is_still_a_failure() -> None:
    assert MessagesFormat().meter().event(b"error", b"Overloaded") == FAILED


def test_counting_tokens_uses_none() -> None:
    meter = CountTokensFormat().meter()
    meter.body(b'{"input_tokens": 2095}')
    assert meter.event(b"message_stop", b"{}") == 0
    assert meter.reading == Reading()
