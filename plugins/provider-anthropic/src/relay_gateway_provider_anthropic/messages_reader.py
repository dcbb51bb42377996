"""Reads requests for Messages into the canonical form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from relay_gateway.plugin.canonical import (
    Base64,
    Blob,
    CacheMark,
    CanonicalRequest,
    Document,
    Image,
    JsonOutput,
    Message,
    NativePart,
    NativeTool,
    Origin,
    Part,
    PlainText,
    Reasoning,
    ReasoningOptions,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Unheld,
    Url,
    unseal,
)
from relay_gateway.plugin.codec import WireCodec
from relay_gateway.plugin.members import Members, parse_object, refuse
from relay_gateway_provider_anthropic.words import (
    FORMAT,
    REDACTED,
    TIERS,
    TTL_SECONDS,
)

_MODES: dict[str, Any] = {
    "enabled": "on",
    "disabled": "off",
    "adaptive": "adaptive",
    "between_tools": "between_tools",
}
_CHOICES: dict[str, Any] = {"auto": "auto", "any": "required", "tool": "required", "none": "none"}


class MessagesReader:
    """Reads one request; ``origin`` collects what is not held."""

    def __init__(self, codec: WireCodec) -> None:
        self._codec = codec
        self._origin: Origin = codec.origin()

    def read(self, body: bytes) -> CanonicalRequest:
        """The whole request."""
        members = parse_object(body)
        effort, output = self._output(members)
        choice, parallel = self._tool_choice(members)
        request = CanonicalRequest(
            model=members.required("model"),
            messages=self._conversation(members),
            stream=members.flag("stream") or False,
            stream_usage=True,
            tools=tuple(self._tool(each) for each in members.children("tools")),
            tool_choice=choice,
            parallel_tool_calls=parallel,
            output=output,
            reasoning=self._reasoning(members, effort),
            cache=self._cache(members),
            user=self._user(members),
            origin=self._origin,
            **_options(members),
        )
        if request.max_output_tokens is None:
            raise refuse("max_tokens", "is missing; it must be an integer")
        request.extra = self._extra(members)
        return request

    def _extra(self, members: Members) -> dict[str, Any]:
        return self._codec.note_unheld(self._origin, members)

    def _conversation(self, members: Members) -> tuple[Message, ...]:
        system = self._content(members, "system")
        first = (Message("system", system),) if system else ()
        return first + tuple(self._message(each) for each in members.children("messages"))

    def _message(self, members: Members) -> Message:
        role = cast("Role | None", members.one_of("role", "user", "assistant", "system"))
        if role is None:
            raise refuse(members.at("role"), "is missing")
        return Message(role, self._content(members, "content"), extra=self._extra(members))

    def _content(self, members: Members, name: str) -> tuple[Part, ...]:
        if isinstance(members.peek(name), str):
            return (Text(members.required(name)),)
        return tuple(self._part(each) for each in members.children(name))

    def _part(self, members: Members) -> Part:
        read = {
            "text": self._text,
            "image": self._image,
            "document": self._document,
            "tool_use": self._tool_use,
            "tool_result": self._tool_result,
            "thinking": self._thinking,
            "redacted_thinking": self._redacted,
        }.get(members.peek("type"))
        part = read(members) if read is not None else None
        return part or self._codec.native_part(self._origin, members)

    def _text(self, members: Members) -> Part:
        members.take("type")
        if members.peek("citations") == []:
            members.take("citations")
        return Text(members.required("text"), self._cache(members), self._extra(members))

    def _image(self, members: Members) -> Part | None:
        source = self._source(members)
        if source is None or isinstance(source, PlainText):
            return None
        members.take("type")
        return Image(source, cache=self._cache(members), extra=self._extra(members))

    def _document(self, members: Members) -> Part | None:
        source = self._source(members)
        if source is None:
            return None
        members.take("type")
        name, context = members.text("title") or "", members.text("context") or ""
        return Document(source, name, context, self._cache(members), self._extra(members))

    def _source(self, members: Members) -> Url | Base64 | PlainText | None:
        """Where media come from; ``None``, and nothing taken, for what only this provider knows."""
        found = members.peek("source")
        if not isinstance(found, dict):
            raise refuse(members.at("source"), "must be an object")
        source = Members(found, members.at("source"))
        readers: dict[Any, Callable[[Members], Url | Base64 | PlainText]] = {
            "url": _url,
            "base64": _base64,
            "text": _plain,
        }
        read = readers.get(source.take("type"))
        if read is None:
            return None
        members.take("source")
        held = read(source)
        self._extra(source)
        return held

    def _tool_use(self, members: Members) -> Part:
        members.take("type")
        if members.peek("caller") == {"type": "direct"}:
            members.take("caller")  # as when nothing is said
        call_id, name = members.required("id"), members.required("name")
        arguments = msgspec.json.encode(members.mapping("input") or {}).decode()
        return ToolCall(call_id, name, arguments, self._cache(members), self._extra(members))

    def _tool_result(self, members: Members) -> Part:
        members.take("type")
        call_id = members.required("tool_use_id")
        parts = self._content(members, "content")
        held = [part for part in parts if isinstance(part, Text | Image | Document | NativePart)]
        if len(held) != len(parts):
            raise refuse(members.at("content"), "has parts that cannot be in the result of a tool")
        is_error = members.flag("is_error") or False
        return ToolResult(
            call_id,
            tuple(held),
            is_error=is_error,
            cache=self._cache(members),
            extra=self._extra(members),
        )

    def _thinking(self, members: Members) -> Part:
        members.take("type")
        text, signature = members.text("thinking") or "", members.text("signature") or ""
        blob = (unseal(signature) or Blob(FORMAT, signature)) if signature else None
        return Reasoning(summary=(text,) if text else (), blob=blob, extra=self._extra(members))

    def _redacted(self, members: Members) -> Part:
        members.take("type")
        data = members.required("data")
        blob = unseal(data) or Blob(FORMAT, data, REDACTED)
        return Reasoning(blob=blob, extra=self._extra(members))

    def _cache(self, members: Members) -> CacheMark | None:
        mark = members.child("cache_control")
        if mark is None:
            return None
        mark.one_of("type", "ephemeral")
        ttl = mark.one_of("ttl", *TTL_SECONDS)
        self._extra(mark)
        return CacheMark(TTL_SECONDS[ttl] if ttl is not None else None)

    def _tool(self, members: Members) -> Tool | NativeTool:
        if members.peek("type") not in (None, "custom"):
            return self._codec.native_tool(self._origin, members)
        members.take("type")
        return Tool(
            members.required("name"),
            members.text("description") or "",
            members.mapping("input_schema"),
            members.flag("strict"),
            self._cache(members),
            self._extra(members),
        )

    def _tool_choice(self, members: Members) -> tuple[ToolChoice | None, bool | None]:
        choice = members.child("tool_choice")
        if choice is None:
            return None, None
        kind = choice.one_of("type", *_CHOICES)
        if kind is None:
            raise refuse(choice.at("type"), "is missing")
        names = (choice.required("name"),) if kind == "tool" else ()
        alone = choice.flag("disable_parallel_tool_use")
        self._extra(choice)
        return ToolChoice(_CHOICES[kind], names), None if alone is None else not alone

    def _output(self, members: Members) -> tuple[str | None, JsonOutput | None]:
        """Effort and format; the format was a member of its own once."""
        config = members.child("output_config")
        effort = config.text("effort") if config is not None else None
        wanted = config.child("format") if config is not None else None
        if config is not None:
            self._extra(config)
        wanted = wanted or members.child("output_format")
        if wanted is None:
            return effort, None
        wanted.one_of("type", "json_schema")
        schema = wanted.mapping("schema") or {}
        self._extra(wanted)
        return effort, JsonOutput(schema)

    def _reasoning(self, members: Members, effort: str | None) -> ReasoningOptions | None:
        thinking = members.child("thinking")
        if thinking is None:
            return ReasoningOptions(effort=effort) if effort is not None else None
        mode = thinking.one_of("type", *_MODES)
        if mode == "between_tools":
            self._origin.unheld.append(Unheld(thinking.at("type"), advisory=True, kind=mode))
        options = ReasoningOptions(
            _MODES[mode] if mode is not None else None,
            effort,
            thinking.integer("budget_tokens"),
            thinking.text("display"),
        )
        self._extra(thinking)
        return options

    def _user(self, members: Members) -> str | None:
        metadata = members.child("metadata")
        if metadata is None:
            return None
        user = metadata.text("user_id")
        self._extra(metadata)
        return user


def _url(source: Members) -> Url:
    return Url(source.required("url"))


def _base64(source: Members) -> Base64:
    return Base64(source.required("media_type"), source.required("data"))


def _plain(source: Members) -> PlainText:
    source.one_of("media_type", "text/plain")
    return PlainText(source.required("data"))


def _options(members: Members) -> dict[str, Any]:
    tier = members.text("service_tier")
    return {
        "max_output_tokens": members.integer("max_tokens"),
        "temperature": members.number("temperature"),
        "top_p": members.number("top_p"),
        "top_k": members.integer("top_k"),
        "stop": members.texts("stop_sequences"),
        "service_tier": TIERS.get(tier, tier) if tier is not None else None,
    }
