"""Reads the contents of the Gemini API into canonical parts."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from typing import Any, TypeGuard

import msgspec

from relay_gateway.plugin.canonical import (
    Audio,
    Base64,
    Blob,
    Document,
    Image,
    NativePart,
    Origin,
    Part,
    PlainText,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    Url,
    unseal,
)
from relay_gateway.plugin.codec import WireCodec
from relay_gateway.plugin.members import Members, refuse
from relay_gateway_provider_gemini.words import CALL_PREFIX, FORMAT, camel


def objects(members: Members, name: str) -> Iterator[Members]:
    """The objects of a list, in camel case."""
    for index, value in enumerate(members.array(name)):
        path = f"{members.at(name)}[{index}]"
        yield Members(camel(value) if isinstance(value, dict) else value, path)


def child(members: Members, name: str) -> Members | None:
    """An object, in camel case."""
    value = members.take(name)
    if value is None:
        return None
    return Members(camel(value) if isinstance(value, dict) else value, members.at(name))


class PartsReader:
    """Reads the parts of one conversation, in order: calls without an id are given one, and results
    without an id belong to the earliest call of their name that has none yet."""

    def __init__(self, codec: WireCodec, origin: Origin) -> None:
        self._codec = codec
        self._origin = origin
        self._unanswered: list[ToolCall] = []
        self._calls = 0

    def parts(self, members: Members) -> tuple[Part, ...]:
        """The parts of one content."""
        parts: list[Part] = []
        for part in (part for each in objects(members, "parts") for part in self._part(each)):
            if _is_foreign(part):
                signed = _with_thoughts(part, parts)
                parts.append(signed)
            else:
                parts.append(part)
        return tuple(parts)

    def _part(self, members: Members) -> Iterator[Part]:
        signature = members.text("thoughtSignature")
        if members.flag("thought"):
            text = members.text("text") or ""
            blob = _blob(signature) if signature else None
            yield Reasoning((text,) if text else (), blob=blob, extra=self._extra(members))
            return
        if signature:
            yield Reasoning(blob=_blob(signature))
        part = self._content(members)
        if not (signature and isinstance(part, Text) and not part.text):
            yield part

    def _content(self, members: Members) -> Part:
        read = {
            "text": self._text,
            "inlineData": self._inline,
            "fileData": self._file,
            "functionCall": self._call,
            "functionResponse": self._result,
        }
        for name, reader in read.items():
            if members.has(name):
                part = reader(members)
                if part is not None:
                    return part
        return self._codec.native_part(self._origin, members)

    def _extra(self, members: Members) -> dict[str, Any]:
        return self._codec.note_unheld(self._origin, members)

    def _text(self, members: Members) -> Part:
        return Text(members.required("text"), extra=self._extra(members))

    def _inline(self, members: Members) -> Part | None:
        data = child(
            Members({"inlineData": members.peek("inlineData")}, members.path), "inlineData"
        )
        if data is None:
            return None
        source = Base64(data.required("mimeType"), data.required("data"))
        part = _media(source, data.text("displayName") or "")
        return self._taken(members, "inlineData", data, part)

    def _file(self, members: Members) -> Part | None:
        data = child(Members({"fileData": members.peek("fileData")}, members.path), "fileData")
        if data is None:
            return None
        uri, media_type = data.required("fileUri"), data.text("mimeType") or ""
        if not uri.startswith(("http://", "https://")) or "generativelanguage." in uri:
            return None  # an uploaded file is known to this provider only
        part = _media(Url(uri, media_type), data.text("displayName") or "")
        return self._taken(members, "fileData", data, part)

    def _taken(
        self, members: Members, name: str, data: Members, part: Image | Audio | Document | None
    ) -> Part | None:
        if part is None:
            return None
        members.take(name)
        self._extra(data)
        return msgspec.structs.replace(part, extra=self._extra(members))

    def _call(self, members: Members) -> Part:
        call = child(members, "functionCall")
        if call is None:
            raise refuse(members.path, "has no function call")
        self._calls += 1
        call_id = call.text("id") or f"{CALL_PREFIX}{self._calls}"
        arguments = msgspec.json.encode(call.mapping("args") or {}).decode()
        part = ToolCall(call_id, call.required("name"), arguments)
        self._extra(call)
        self._unanswered.append(part)
        return msgspec.structs.replace(part, extra=self._extra(members))

    def _result(self, members: Members) -> Part:
        result = child(members, "functionResponse")
        if result is None:
            raise refuse(members.path, "has no function response")
        name, call_id = result.required("name"), result.text("id")
        text, is_error = result_text(result.mapping("response") or {})
        media = [self._result_media(each) for each in objects(result, "parts")]
        self._extra(result)
        return ToolResult(
            call_id or self._answered(name),
            (Text(text), *media),
            name=name,
            is_error=is_error,
            extra=self._extra(members),
        )

    def _result_media(self, members: Members) -> Image | Document | NativePart:
        part = self._inline(members) if members.has("inlineData") else None
        if part is None and members.has("fileData"):
            part = self._file(members)
        if isinstance(part, Image | Document):
            return part
        return self._codec.native_part(self._origin, members)

    def _answered(self, name: str) -> str:
        """The id of the call that a result without one is for."""
        for call in self._unanswered:
            if call.name == name:
                self._unanswered.remove(call)
                return call.id
        self._calls += 1
        return f"{CALL_PREFIX}{self._calls}"


def _blob(signature: str) -> Blob:
    """The blob that a thought signature is, or that was sealed as one."""
    return unseal(signature) or Blob(FORMAT, signature)


def _is_foreign(part: Part) -> TypeGuard[Reasoning]:
    return isinstance(part, Reasoning) and part.blob is not None and part.blob.format != FORMAT


def _with_thoughts(signed: Reasoning, parts: list[Part]) -> Reasoning:
    """``signed`` with the thoughts before it: a stream brings them in pieces, and the signature of
    another provider is about all of them. They are taken from ``parts``."""
    texts: list[str] = []
    while parts:
        before = parts[-1]
        if not isinstance(before, Reasoning) or before.blob is not None:
            break
        texts[:0] = before.summary
        parts.pop()
    text = "".join([*texts, *signed.summary])
    return msgspec.structs.replace(signed, summary=(text,) if text else ())


def _media(source: Url | Base64, name: str) -> Image | Audio | Document | None:
    """Media by their type; ``None`` for what no other format knows, such as video."""
    kind = source.media_type.partition("/")[0]
    if kind == "image":
        return Image(source)
    if kind == "audio":
        return Audio(source)
    if kind == "text" and isinstance(source, Base64):
        text = _decoded(source.data)
        return Document(PlainText(text), name) if text is not None else None
    return Document(source, name) if source.media_type == "application/pdf" else None


def _decoded(data: str) -> str | None:
    try:
        return base64.b64decode(data, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def result_text(response: dict[str, Any]) -> tuple[str, bool]:
    """The text of a function's response, and whether it is an error.

    ``{"result": text}`` and ``{"error": text}`` are what a text is written as; everything else is
    JSON text.
    """
    for name in ("result", "error"):
        text = response.get(name)
        if response.keys() == {name} and isinstance(text, str) and as_object(text) is None:
            return text, name == "error"
    return msgspec.json.encode(response).decode(), False


def as_object(text: str) -> dict[str, Any] | None:
    """The JSON object that ``text`` is, if it is one."""
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
