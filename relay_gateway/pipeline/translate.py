"""Requests to hosts that do not speak the caller's wire format: there by way of the neutral form.

A request is read once, whatever number of hosts it is then written for. Nothing here waits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from relay_gateway.catalog.snapshot import Binding, Model
from relay_gateway.errors import UpstreamProtocolError
from relay_gateway.pipeline.ports import Exchange
from relay_gateway.plugin.canonical import CanonicalRequest
from relay_gateway.plugin.codec import AnswerContext, EncodedRequest, EncodeOptions, WireCodec
from relay_gateway.plugin.providers import UpstreamProvider
from relay_gateway.plugin.wire import Endpoint, WireFormat

MAX_TRANSLATED_BODY = 64 * 1024 * 1024


_LOST: Final = re.compile(r"[A-Za-z0-9_.\[\]-]{1,80}")
"""Parts that an upstream has made up are not repeated in a header."""


class Speech(msgspec.Struct, frozen=True):
    """A wire format that a host is asked in, and what translates it."""

    wire_format: WireFormat
    codec: WireCodec

    def endpoint(self, *, streamed: bool) -> Endpoint:
        """Where the format is spoken; a format may have a place of its own for streams."""
        endpoints = self.wire_format.endpoints
        for endpoint in endpoints:
            if endpoint.streams is streamed:
                return endpoint
        return endpoints[0]


class Translation(msgspec.Struct):
    """One request on its way through the neutral form, and its answer on the way back."""

    request: CanonicalRequest
    caller: WireCodec
    upstream_codec: WireCodec
    """Of the upstream that was written for last."""
    context: AnswerContext
    received: bytes = b""
    """A whole answer as the upstream gave it."""
    told: bytes = b""
    """The same in the caller's format."""
    lost: tuple[str, ...] = ()
    """What of it could not be told, as a header may have it."""

    def encode(self, codec: WireCodec, model: Model, binding: Binding) -> EncodedRequest:
        """The request in the format of an upstream, as its host calls the model and wants it.

        Raises :class:`RequestRefusedError` (400) naming the field that cannot be carried.
        """
        options = EncodeOptions(model.max_output_tokens, binding.host.view.config)
        self.upstream_codec = codec
        return codec.encode_request(self.request, binding.upstream_name, options)

    async def receive(self, exchange: Exchange) -> None:
        """Reads a whole answer and tells it in the caller's format. Raises
        :class:`UpstreamProtocolError` for what is none."""
        self.received = await read_whole(exchange)
        response = self.upstream_codec.decode_response(self.received)
        self.told = self.caller.encode_response(response, self.context)
        self.lost = tuple(filter(_LOST.fullmatch, (f"answer.{one}" for one in response.dropped)))


async def read_whole(exchange: Exchange) -> bytes:
    """The body of an answer that is to be translated. Raises :class:`UpstreamProtocolError` for one
    that is too long to be held."""
    body = await exchange.read(MAX_TRANSLATED_BODY + 1)
    if len(body) > MAX_TRANSLATED_BODY:
        limit = MAX_TRANSLATED_BODY // 1024 // 1024
        raise UpstreamProtocolError(f"the upstream's answer is longer than {limit} MiB")
    return body


class Translator:
    """Knows the codecs of all installed wire formats, and what each adapter prefers to be asked
    in."""

    def __init__(
        self, formats: Mapping[str, WireFormat], providers: Mapping[str, UpstreamProvider]
    ) -> None:
        self._formats = formats
        self._providers = providers
        self._speech: dict[str, Speech] = {}
        self._preferred: dict[str, list[Speech]] = {}
        self.providers_changed()

    def providers_changed(self) -> None:
        """Looks at formats and providers again, of which there may be others than before. Those
        that are gone are still known, for requests that have begun."""
        for name, wire_format in self._formats.items():
            codec = wire_format.codec()
            if codec is not None:
                self._speech[name] = Speech(wire_format, codec)
        for adapter, provider in self._providers.items():
            spoken = [self._speech[name] for name in provider.wire_formats if name in self._speech]
            self._preferred[adapter] = spoken

    def speech_for(self, wire_format: str, binding: Binding) -> Speech | None:
        """What to ask a host in that does not speak ``wire_format``; ``None`` where nothing can be
        translated."""
        if wire_format not in self._speech:
            return None
        for speech in self._preferred.get(binding.host.adapter, ()):
            if speech.wire_format.name in binding.wire_formats:
                return speech
        return None

    def reads(self, wire_format: str) -> bool:
        """Whether the format has a codec."""
        return wire_format in self._speech

    def begin(
        self, wire_format: str, body: bytes, model: str, *, streamed: bool, answer_id: str, now: int
    ) -> Translation:
        """Reads a request; ``now`` is in seconds since the epoch.

        Raises :class:`RequestRefusedError` (400) naming the field that cannot be read.
        """
        codec = self._speech[wire_format].codec
        request = codec.decode_request(body, model=model, streamed=streamed)
        return Translation(request, codec, codec, AnswerContext(request, answer_id, now))
