"""The wire formats of the Gemini API: their paths, meters and codec.

``{model}`` in a path is the name of the model, which the bodies of this API need not say. Those of
embeddings and token counts do, once for each request in them, and it must be the same.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from relay_gateway.plugin import Endpoint, UsageMeter, WireCodec, WireFormat
from relay_gateway_provider_gemini.codec import GenerateCodec
from relay_gateway_provider_gemini.dialect import GeminiDialect
from relay_gateway_provider_gemini.meters import EmbedMeter, GenerateMeter, SilentMeter

_VERSIONS = ("/v1beta", "/v1")
"""Of the API, as its clients ask for them: which one is the default changed between their releases,
and for what is served here they are the same."""

_MODEL = re.compile(rb'"model"\s*:')
_Members = dict[str, msgspec.Raw]
_MEMBERS = msgspec.json.Decoder(_Members)
_INNER: msgspec.json.Decoder[Any] = msgspec.json.Decoder(_Members | list[_Members])


def _endpoints(operation: str, *, streams: bool = False) -> tuple[Endpoint, ...]:
    path = f"/models/{{model}}:{operation}"
    # Without it the API streams a JSON array, which no client library asks for.
    query = "alt=sse" if streams else ""
    return tuple(
        Endpoint(operation, version + path, path, streams=streams, needs_query=query)
        for version in _VERSIONS
    )


class GenerateFormat(WireFormat):
    """generateContent, and streamGenerateContent with server-sent events. Usage is in every answer
    and chunk, so there is no option to ask for it."""

    name = "gemini.generate"
    dialect = GeminiDialect
    endpoints = (
        *_endpoints("generateContent"),
        *_endpoints("streamGenerateContent", streams=True),
    )
    output_limits = ("generationConfig.maxOutputTokens",)

    def meter(self) -> UsageMeter:
        """A fresh meter for one answer."""
        return GenerateMeter()

    def codec(self) -> WireCodec:
        """Stateless, so a new one costs nothing."""
        return GenerateCodec()


class CountTokensFormat(WireFormat):
    """Counting the tokens of a request before it is sent; free, so nothing is metered."""

    name = "gemini.count_tokens"
    dialect = GeminiDialect
    endpoints = _endpoints("countTokens")

    def renamed(self, body: bytes, model: str) -> bytes:
        """With ``model`` in ``generateContentRequest``."""
        return _renamed(body, model)

    def meter(self) -> UsageMeter:
        """A meter that reads nothing."""
        return SilentMeter()


class EmbedFormat(WireFormat):
    """Embeddings, of one content or of several."""

    name = "gemini.embed"
    dialect = GeminiDialect
    endpoints = (*_endpoints("embedContent"), *_endpoints("batchEmbedContents"))

    def renamed(self, body: bytes, model: str) -> bytes:
        """With ``model`` in every request."""
        return _renamed(body, model)

    def meter(self) -> UsageMeter:
        """A fresh meter for one answer."""
        return EmbedMeter()


def _renamed(body: bytes, model: str) -> bytes:
    """The body with ``model`` wherever it says one; what else is in it stays byte for byte."""
    if _MODEL.search(body) is None:
        return body
    try:
        members = _MEMBERS.decode(body)
        named = _named(members, model)
        for place in ("requests", "generateContentRequest"):
            if place in named:
                named[place] = _inside(named[place], model)
    except (ValueError, RecursionError):
        return body  # The host knows best what is wrong with it.
    return msgspec.json.encode(named)


def _inside(value: msgspec.Raw, model: str) -> msgspec.Raw:
    found = _INNER.decode(value)
    several = [_named(one, model) for one in found] if isinstance(found, list) else None
    return msgspec.Raw(msgspec.json.encode(_named(found, model) if several is None else several))


def _named(members: dict[str, msgspec.Raw], model: str) -> dict[str, msgspec.Raw]:
    if "model" not in members:
        return members
    name = model if "/" in model else f"models/{model}"
    return {**members, "model": msgspec.Raw(msgspec.json.encode(name))}


FORMATS: tuple[type[WireFormat], ...] = (GenerateFormat, CountTokensFormat, EmbedFormat)
"""All of them, the preferred one first."""
