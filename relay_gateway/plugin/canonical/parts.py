"""Parts of messages and answers: text, media, reasoning, tool calls and their results.

``extra`` of a part has the members that only the format it was read from knows, as JSON values;
that format's codec writes them back, and for every other one they are counted among
:attr:`~relay_gateway.plugin.canonical.request.Origin.unheld`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from relay_gateway.plugin.canonical.blobs import Blob


class CacheMark(msgspec.Struct, frozen=True):
    """The prompt up to here is worth caching, for ``seconds`` (``None``: as long as the provider
    likes)."""

    seconds: int | None = None


class Url(msgspec.Struct, frozen=True, tag=True):
    """Media that the provider fetches itself. ``media_type`` is empty where nobody said it."""

    url: str
    media_type: str = ""


class Base64(msgspec.Struct, frozen=True, tag=True):
    """Media in the request; ``data`` is the base64 text as the caller sent it."""

    media_type: str
    data: str


class PlainText(msgspec.Struct, frozen=True, tag=True):
    """A document that is plain text."""

    text: str


class Text(msgspec.Struct, frozen=True, tag=True):
    """Text that a person or a model wrote."""

    text: str
    cache: CacheMark | None = None
    extra: dict[str, Any] = {}


class Refusal(msgspec.Struct, frozen=True, tag=True):
    """Text with which a model declined."""

    text: str
    extra: dict[str, Any] = {}


class Image(msgspec.Struct, frozen=True, tag=True):
    """A picture; ``detail`` is how closely to look at it, in the words of its format."""

    source: Url | Base64
    detail: str = ""
    cache: CacheMark | None = None
    extra: dict[str, Any] = {}


class Document(msgspec.Struct, frozen=True, tag=True):
    """A PDF or a text; ``name`` is its title or file name, ``context`` what is said about it."""

    source: Url | Base64 | PlainText
    name: str = ""
    context: str = ""
    cache: CacheMark | None = None
    extra: dict[str, Any] = {}


class Audio(msgspec.Struct, frozen=True, tag=True):
    """A recording."""

    source: Url | Base64
    cache: CacheMark | None = None
    extra: dict[str, Any] = {}


class Reasoning(msgspec.Struct, frozen=True, tag=True):
    """What a model thought before it answered.

    ``summary`` are texts made for readers, ``content`` the thoughts themselves. A ``blob`` without
    any text signs the part that follows it.
    """

    summary: tuple[str, ...] = ()
    content: tuple[str, ...] = ()
    blob: Blob | None = None
    extra: dict[str, Any] = {}


class ToolCall(msgspec.Struct, frozen=True, tag=True):
    """The model wants a tool to run; ``arguments`` is JSON text as the model wrote it."""

    id: str
    name: str
    arguments: str
    cache: CacheMark | None = None
    extra: dict[str, Any] = {}


class NativePart(msgspec.Struct, frozen=True, tag=True):
    """A part that only the format it was read from can express, as its JSON value."""

    data: dict[str, Any]


class ToolResult(msgspec.Struct, frozen=True, tag=True):
    """What a tool gave for the call ``call_id``; ``name`` is the tool's where a format says it."""

    call_id: str
    parts: tuple[Text | Image | Document | NativePart, ...]
    name: str = ""
    is_error: bool = False
    cache: CacheMark | None = None
    extra: dict[str, Any] = {}


Part = Text | Refusal | Image | Document | Audio | Reasoning | ToolCall | ToolResult | NativePart
"""Whatever a message consists of."""
