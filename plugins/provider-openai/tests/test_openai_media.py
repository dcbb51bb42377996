"""Meters of images, audio and reranking on recorded answers, and what the requests say."""

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
    TERMINAL,
    PluginConfig,
    Reading,
    UpstreamProvider,
    WireFormat,
)
from relay_gateway.testing.conformance import (
    AnswerSample,
    StreamSample,
    UpstreamProviderConformance,
)
from relay_gateway.testing.context import plugin_context
from relay_gateway.testing.plugin_tests import events_in
from relay_gateway_provider_openai.media_formats import (
    MEDIA_FORMATS,
    ImagesFormat,
    ModerationsFormat,
    RerankFormat,
    SpeechFormat,
    TranscriptionsFormat,
)
from relay_gateway_provider_openai.provider import OpenAIProvider

ANSWERS = Path(__file__).parent / "answers"
RECORDING = b"ID3\x04\x00\x00\x00\x00\x00\x23TSSE\xff\xfb\x90"

STREAMS: dict[str, tuple[type[WireFormat], Reading, list[int]]] = {
    "image_generation": (
        ImagesFormat,
        Reading({"input": 50, "output": 50}),
        [CONTENT, CONTENT | TERMINAL],
    ),
    "image_edit": (
        ImagesFormat,
        Reading(units={"images": 2}),
        [CONTENT, CONTENT | TERMINAL, CONTENT | TERMINAL, TERMINAL],
    ),
    "transcription": (
        TranscriptionsFormat,
        Reading({"input": 14, "output": 45, "audioInput": 14}),
        [CONTENT, CONTENT, TERMINAL],
    ),
    "transcription_compatible_host": (
        TranscriptionsFormat,
        Reading({"input": 200, "output": 3}, upstream_model="whisper-large-v3"),
        [CONTENT, CONTENT, 0, TERMINAL],
    ),
    "speech": (
        SpeechFormat,
        Reading({"input": 14, "output": 101}),
        [CONTENT, CONTENT, TERMINAL],
    ),
}

WHOLE: dict[str, tuple[type[WireFormat], Reading]] = {
    "moderation": (ModerationsFormat, Reading()),
    "image_tokens": (ImagesFormat, Reading({"input": 15, "output": 6240})),
    "image_links": (ImagesFormat, Reading(units={"images": 2})),
    "transcription_tokens": (
        TranscriptionsFormat,
        Reading({"input": 14, "output": 101, "audioInput": 4}),
    ),
    "transcription_seconds": (TranscriptionsFormat, Reading(units={"audioSeconds": 9})),
    "transcription_duration": (TranscriptionsFormat, Reading(units={"audioSeconds": 9})),
    "rerank_searches": (RerankFormat, Reading(units={"searches": 1})),
    "rerank_tokens": (
        RerankFormat,
        Reading({"input": 815}, upstream_model="jina-reranker-v3"),
    ),
}


def events_of(name: str, size: int) -> list[tuple[bytes, bytes]]:
    """The events of a recorded stream that arrives in chunks of ``size`` bytes."""
    return events_in((ANSWERS / f"{name}.sse").read_bytes(), size)


class TestConformance(UpstreamProviderConformance):
    """The provider keeps what the base classes promise in the formats around text."""

    @pytest.fixture
    def provider(self, tmp_path: Path) -> UpstreamProvider:
        return OpenAIProvider(PluginConfig(), plugin_context(tmp_path))

    @pytest.fixture
    def formats(self, provider: UpstreamProvider) -> Mapping[str, WireFormat]:
        return {wire_format.name: wire_format() for wire_format in MEDIA_FORMATS}

    @pytest.fixture
    def answer_samples(self) -> Sequence[AnswerSample]:
        recorded = [
            AnswerSample(wire_format.name, (ANSWERS / f"{name}.json").read_bytes(), reading)
            for name, (wire_format, reading) in WHOLE.items()
        ]
        return [*recorded, AnswerSample("openai.speech", RECORDING, Reading())]

    @pytest.fixture
    def stream_samples(self) -> Sequence[StreamSample]:
        return [
            StreamSample(wire_format.name, events_of(name, 4096), reading)
            for name, (wire_format, reading, _) in STREAMS.items()
        ]


@pytest.mark.parametrize("size", [1, 7, 1 << 20])
@pytest.mark.parametrize("name", STREAMS)
def test_r23_recorded_stream_gives_its_figures_and_flags_for_any_chunking(
    name: str, size: int
) -> None:
    wire_format, reading, flags = STREAMS[name]
    meter = wire_format().meter()
    assert [meter.event(*event) for event in events_of(name, size)] == flags
    assert meter.reading == reading


@pytest.mark.parametrize("wire_format", MEDIA_FORMATS)
@given(
    name=st.sampled_from([b"", b"error"]),
    data=st.binary(max_size=200).filter(lambda data: b"{" not in data),
)
def test_no_event_whatever_makes_a_meter_raise(
    wire_format: type[WireFormat], name: bytes, data: bytes
) -> None:
    meter = wire_format().meter()
    assert meter.event(name, data) >= 0
    meter.body(data)
    assert meter.reading.tokens == {}


@pytest.mark.parametrize(
    ("seconds", "read"),
    [(0, 0), (0.0, 0), (0.01, 1), (59.0, 59), (-1.5, None), (1e300, None), ("9", None)],
)
def test_f44_seconds_are_rounded_up_and_zero_is_kept_apart_from_missing(
    seconds: object, read: int | None
) -> None:
    meter = TranscriptionsFormat().meter()
    meter.body(msgspec.json.encode({"usage": {"type": "duration", "seconds": seconds}}))
    assert meter.reading.units == ({} if read is None else {"audioSeconds": read})


def test_f44_no_images_and_no_searches_are_told_apart_from_silence() -> None:
    images, silent = ImagesFormat().meter(), ImagesFormat().meter()
    images.body(b'{"data":[]}')
    silent.body(b'{"data":null}')
    assert (images.reading.units, silent.reading.units) == ({"images": 0}, {})
    searches = RerankFormat().meter()
    searches.body(b'{"meta":{"billed_units":{"search_units":0},"tokens":{"input_tokens":9}}}')
    assert searches.reading == Reading(units={"searches": 0})


def test_images_with_usage_are_not_counted_a_second_time() -> None:
    meter = ImagesFormat().meter()
    meter.event(b"", b'{"type":"image_edit.completed"}')
    assert meter.reading.units == {"images": 1}
    meter.event(b"", b'{"type":"image_edit.completed","usage":{"input_tokens":4}}')
    assert meter.reading == Reading({"input": 4})


@pytest.mark.parametrize("wire_format", [ImagesFormat, SpeechFormat, TranscriptionsFormat])
@pytest.mark.parametrize(
    ("name", "data"),
    [(b"error", b"not json"), (b"", b'{"error":{"message":"overloaded"}}')],
)
def test_f47_errors_inside_a_stream_are_failures(
    wire_format: type[WireFormat], name: bytes, data: bytes
) -> None:
    assert wire_format().meter().event(name, data) == FAILED


@pytest.mark.parametrize(
    ("body", "units"),
    [
        ('{"model":"tts-1","input":"Grüße 👋","voice":"alloy"}'.encode(), {"characters": 7}),
        (b'{"model":"tts-1","input":""}', {"characters": 0}),
        (b'{"model":"tts-1","input":["a"]}', {}),
        (b'{"model":"tts-1"}', {}),
        (b"[" * 5000, {}),
    ],
)
def test_characters_to_be_spoken_are_counted_in_the_request(
    body: bytes, units: Mapping[str, int]
) -> None:
    assert SpeechFormat().asked_units(body) == units


def test_only_audio_that_is_to_be_understood_must_come_in_a_form() -> None:
    bodies = {
        endpoint.name: endpoint.body
        for wire_format in MEDIA_FORMATS
        for endpoint in wire_format.endpoints
        if endpoint.body != "json"
    }
    assert bodies == {
        "images.edits": "either",
        "audio.transcriptions": "form",
        "audio.translations": "form",
    }
