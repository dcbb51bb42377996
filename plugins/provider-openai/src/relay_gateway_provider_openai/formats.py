"""The wire formats of the OpenAI API: their paths, their usage option, their meters."""

from __future__ import annotations

from relay_gateway.plugin import Endpoint, UsageMeter, UsageOption, WireCodec, WireFormat
from relay_gateway_provider_openai.chat_codec import ChatCodec
from relay_gateway_provider_openai.chat_meter import ChatMeter
from relay_gateway_provider_openai.dialect import OpenAIDialect, OpenAIResponsesDialect
from relay_gateway_provider_openai.embeddings_meter import EmbeddingsMeter
from relay_gateway_provider_openai.media_formats import MEDIA_FORMATS
from relay_gateway_provider_openai.responses_codec import ResponsesCodec
from relay_gateway_provider_openai.responses_meter import ResponsesMeter

_STREAM_USAGE = UsageOption("stream_options", "include_usage")


class ChatFormat(WireFormat):
    """Chat Completions."""

    name = "openai.chat"
    dialect = OpenAIDialect
    endpoints = (Endpoint("chat.completions", "/v1/chat/completions", "/chat/completions"),)
    usage_option = _STREAM_USAGE
    output_limits = ("max_completion_tokens", "max_tokens")

    def meter(self) -> UsageMeter:
        """A fresh meter for one answer."""
        return ChatMeter()

    def codec(self) -> WireCodec:
        """Stateless, so a new one costs nothing."""
        return ChatCodec()


class CompletionsFormat(WireFormat):
    """Completions, the older interface that takes a prompt."""

    name = "openai.completions"
    dialect = OpenAIDialect
    endpoints = (Endpoint("completions", "/v1/completions", "/completions"),)
    usage_option = _STREAM_USAGE
    output_limits = ("max_tokens",)

    def meter(self) -> UsageMeter:
        """A fresh meter for one answer; it knows both places where text can be."""
        return ChatMeter()


class ResponsesFormat(WireFormat):
    """Responses. Its streams always end with usage, so there is no option to ask for it."""

    name = "openai.responses"
    dialect = OpenAIResponsesDialect
    endpoints = (Endpoint("responses", "/v1/responses", "/responses"),)
    output_limits = ("max_output_tokens",)

    def meter(self) -> UsageMeter:
        """A fresh meter for one answer."""
        return ResponsesMeter()

    def codec(self) -> WireCodec:
        """Stateless, so a new one costs nothing."""
        return ResponsesCodec()


class EmbeddingsFormat(WireFormat):
    """Embeddings."""

    name = "openai.embeddings"
    dialect = OpenAIDialect
    endpoints = (Endpoint("embeddings", "/v1/embeddings", "/embeddings", streams=False),)

    def meter(self) -> UsageMeter:
        """A fresh meter for one answer."""
        return EmbeddingsMeter()


FORMATS: tuple[type[WireFormat], ...] = (
    ChatFormat,
    ResponsesFormat,
    CompletionsFormat,
    EmbeddingsFormat,
    *MEDIA_FORMATS,
)
"""All of them, the preferred one first."""
