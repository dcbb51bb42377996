"""The wire formats of the Anthropic API: their paths and meters."""

from __future__ import annotations

from relay_gateway.plugin import Endpoint, UsageMeter, WireCodec, WireFormat
from relay_gateway_provider_anthropic.dialect import AnthropicDialect
from relay_gateway_provider_anthropic.messages_codec import MessagesCodec
from relay_gateway_provider_anthropic.messages_meter import MessagesMeter
from relay_gateway_provider_anthropic.silent_meter import SilentMeter


class MessagesFormat(WireFormat):
    """Messages. Its streams always carry usage, so there is no option to ask for it."""

    name = "anthropic.messages"
    dialect = AnthropicDialect
    endpoints = (Endpoint("messages", "/v1/messages", "/messages"),)
    output_limits = ("max_tokens",)

    def meter(self) -> UsageMeter:
        """A fresh meter for one answer."""
        return MessagesMeter()

    def codec(self) -> WireCodec:
        """Stateless, so a new one costs nothing."""
        return MessagesCodec()


class CountTokensFormat(WireFormat):
    """Counting the tokens of a message before it is sent; free of charge, so nothing is metered."""

    name = "anthropic.count_tokens"
    dialect = AnthropicDialect
    endpoints = (
        Endpoint(
            "messages.count_tokens",
            "/v1/messages/count_tokens",
            "/messages/count_tokens",
            streams=False,
        ),
    )

    def meter(self) -> UsageMeter:
        """A meter that reads nothing."""
        return SilentMeter()


FORMATS: tuple[type[WireFormat], ...] = (MessagesFormat, CountTokensFormat)
"""All of them, the preferred one first."""
