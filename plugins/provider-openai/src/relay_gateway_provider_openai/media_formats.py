"""The wire formats around text: moderations, images, speech, transcriptions, reranking."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from relay_gateway.plugin import Endpoint, UsageMeter, WireFormat
from relay_gateway_provider_openai.audio_meters import AudioMeter
from relay_gateway_provider_openai.dialect import OpenAIDialect
from relay_gateway_provider_openai.images_meter import ImagesMeter
from relay_gateway_provider_openai.rerank_meter import RerankMeter
from relay_gateway_provider_openai.silent_meter import SilentMeter


class _Speech(msgspec.Struct):
    input: Any = None


_SPEECH = msgspec.json.Decoder(_Speech)


class ModerationsFormat(WireFormat):
    """Moderations."""

    name = "openai.moderations"
    dialect = OpenAIDialect
    endpoints = (Endpoint("moderations", "/v1/moderations", "/moderations", streams=False),)

    def meter(self) -> UsageMeter:
        """A meter that reads nothing."""
        return SilentMeter()


class ImagesFormat(WireFormat):
    """Images from words, and from words and other images; the latter come in a form, or as links in
    JSON."""

    name = "openai.images"
    dialect = OpenAIDialect
    endpoints = (
        Endpoint("images.generations", "/v1/images/generations", "/images/generations"),
        Endpoint("images.edits", "/v1/images/edits", "/images/edits", body="either"),
    )

    def meter(self) -> UsageMeter:
        """A fresh meter for one answer."""
        return ImagesMeter()


class SpeechFormat(WireFormat):
    """Speech from words. The answer is a recording, or with ``stream_format`` ``sse`` a stream of
    events; only the latter has usage, so characters are counted in the request."""

    name = "openai.speech"
    dialect = OpenAIDialect
    endpoints = (Endpoint("audio.speech", "/v1/audio/speech", "/audio/speech"),)
    # The reference names the last event, but not all hosts have it.
    stream_ends_with_terminal = False
    bills_request = True

    def asked_units(self, body: bytes) -> Mapping[str, int]:
        """The characters that are to be spoken."""
        try:
            spoken = _SPEECH.decode(body).input
        except (ValueError, RecursionError):
            return {}
        return {"characters": len(spoken)} if isinstance(spoken, str) else {}

    def meter(self) -> UsageMeter:
        """A fresh meter for one answer."""
        return AudioMeter()


class TranscriptionsFormat(WireFormat):
    """Words from speech, in its own language or in English."""

    name = "openai.transcriptions"
    dialect = OpenAIDialect
    endpoints = (
        Endpoint(
            "audio.transcriptions",
            "/v1/audio/transcriptions",
            "/audio/transcriptions",
            body="form",
        ),
        Endpoint(
            "audio.translations",
            "/v1/audio/translations",
            "/audio/translations",
            streams=False,
            body="form",
        ),
    )

    def meter(self) -> UsageMeter:
        """A fresh meter for one answer."""
        return AudioMeter()


class RerankFormat(WireFormat):
    """Documents in the order of how well they answer a question. OpenAI itself has no such thing;
    this is the shape that Cohere and Jina gave it and that compatible hosts have."""

    name = "openai.rerank"
    dialect = OpenAIDialect
    endpoints = (Endpoint("rerank", "/v1/rerank", "/rerank", streams=False),)

    def meter(self) -> UsageMeter:
        """A fresh meter for one answer."""
        return RerankMeter()


MEDIA_FORMATS: tuple[type[WireFormat], ...] = (
    ModerationsFormat,
    ImagesFormat,
    SpeechFormat,
    TranscriptionsFormat,
    RerankFormat,
)
