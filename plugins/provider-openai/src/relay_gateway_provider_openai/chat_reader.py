"""Reads requests for Chat Completions into the canonical form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from relay_gateway.plugin.canonical import (
    Audio,
    Base64,
    CanonicalRequest,
    Document,
    Image,
    JsonOutput,
    Message,
    NativeTool,
    Origin,
    Part,
    ReasoningOptions,
    Refusal,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from relay_gateway.plugin.codec import WireCodec
from relay_gateway.plugin.members import Members, parse_object, refuse
from relay_gateway_provider_openai.chat_reasoning import reasoning_of_message
from relay_gateway_provider_openai.media import AUDIO_FORMATS, cache_mark, source_of

_ROLES = ("developer", "system", "user", "assistant", "tool")


class ChatReader:
    """Reads one request; ``origin`` collects what is not held."""

    def __init__(self, codec: WireCodec) -> None:
        self._codec = codec
        self._origin: Origin = codec.origin()

    def read(self, body: bytes) -> CanonicalRequest:
        """The whole request."""
        members = parse_object(body)
        request = CanonicalRequest(
            model=members.required("model"),
            messages=tuple(self._message(each) for each in members.children("messages")),
            stream=members.flag("stream") or False,
            stream_usage=self._stream_usage(members),
            tools=tuple(self._tool(each) for each in members.children("tools")),
            tool_choice=self._tool_choice(members),
            parallel_tool_calls=members.flag("parallel_tool_calls"),
            output=self._output(members),
            reasoning=_reasoning(members),
            stop=_stop(members),
            origin=self._origin,
            **_options(members),
        )
        if members.peek("modalities") == ["text"]:
            members.take("modalities")  # as when nothing is said
        request.extra = self._extra(members)
        return request

    def _extra(self, members: Members) -> dict[str, Any]:
        return self._codec.note_unheld(self._origin, members)

    def _stream_usage(self, members: Members) -> bool | None:
        options = members.child("stream_options")
        if options is None:
            return None
        wanted = options.flag("include_usage")
        self._extra(options)
        return wanted

    def _message(self, members: Members) -> Message:
        role = cast("Role | None", members.one_of("role", *_ROLES))
        if role is None:
            raise refuse(members.at("role"), "is missing")
        name = members.text("name") or ""
        if role == "tool":
            parts: tuple[Part, ...] = (self._tool_result(members),)
        elif role == "assistant":
            parts = tuple(self._assistant(members))
        else:
            parts = self._content(members)
        return Message(role, parts, name, self._extra(members))

    def _assistant(self, members: Members) -> Iterator[Part]:
        yield from reasoning_of_message(members, from_client=True)
        yield from self._content(members)
        refusal = members.text("refusal")
        if refusal:
            yield Refusal(refusal)
        for call in members.children("tool_calls"):
            yield self._tool_call(call)

    def _tool_call(self, members: Members) -> Part:
        if members.peek("type") not in (None, "function"):
            return self._codec.native_part(self._origin, members)
        members.take("type")
        function = members.child("function")
        if function is None:
            raise refuse(members.at("function"), "is missing")
        call = (members.required("id"), function.required("name"), function.text("arguments") or "")
        self._extra(function)
        return ToolCall(*call, extra=self._extra(members))

    def _tool_result(self, members: Members) -> ToolResult:
        call_id = members.required("tool_call_id")
        parts = self._content(members)
        held = tuple(part for part in parts if isinstance(part, Text))
        if len(held) != len(parts):
            raise refuse(members.at("content"), "of a tool message can only be text")
        return ToolResult(call_id, held)

    def _content(self, members: Members) -> tuple[Part, ...]:
        content = members.peek("content")
        if isinstance(content, str):
            members.take("content")
            return (Text(content),)
        return tuple(self._part(each) for each in members.children("content"))

    def _part(self, members: Members) -> Part:
        read = {
            "text": self._text,
            "image_url": self._image,
            "input_audio": self._audio,
            "file": self._file,
            "refusal": self._refusal,
        }.get(members.peek("type"))
        part = read(members) if read is not None else None
        return part or self._codec.native_part(self._origin, members)

    def _text(self, members: Members) -> Part:
        members.take("type")
        return Text(
            members.required("text"), cache_mark(members, self._extra), self._extra(members)
        )

    def _refusal(self, members: Members) -> Part:
        members.take("type")
        return Refusal(members.required("refusal"), self._extra(members))

    def _image(self, members: Members) -> Part:
        members.take("type")
        image = members.child("image_url")
        if image is None:
            raise refuse(members.at("image_url"), "is missing")
        source, detail = source_of(image.required("url")), image.text("detail") or ""
        self._extra(image)
        return Image(source, detail, cache_mark(members, self._extra), self._extra(members))

    def _audio(self, members: Members) -> Part:
        members.take("type")
        audio = members.child("input_audio")
        if audio is None:
            raise refuse(members.at("input_audio"), "is missing")
        media_type = AUDIO_FORMATS[audio.one_of("format", *AUDIO_FORMATS) or "wav"]
        source = Base64(media_type, audio.required("data"))
        self._extra(audio)
        return Audio(source, cache_mark(members, self._extra), self._extra(members))

    def _file(self, members: Members) -> Part | None:
        file = members.peek("file")
        if not isinstance(file, dict) or not isinstance(file.get("file_data"), str):
            return None  # a file by its id is known to this provider only
        held = Members(file, members.at("file"))
        members.take("type")
        members.take("file")
        source = source_of(held.required("file_data"))
        if not isinstance(source, Base64):
            source = Base64("application/pdf", source.url)
        name = held.text("filename") or ""
        self._extra(held)
        return Document(
            source, name, cache=cache_mark(members, self._extra), extra=self._extra(members)
        )

    def _tool(self, members: Members) -> Tool | NativeTool:
        if members.peek("type") != "function":
            return self._codec.native_tool(self._origin, members)
        members.take("type")
        function = members.child("function")
        if function is None:
            raise refuse(members.at("function"), "is missing")
        name, description = function.required("name"), function.text("description") or ""
        parameters, strict = function.mapping("parameters"), function.flag("strict")
        self._extra(function)
        return Tool(name, description, parameters, strict, extra=self._extra(members))

    def _tool_choice(self, members: Members) -> ToolChoice | None:
        value = members.peek("tool_choice")
        if value in ("auto", "none", "required"):
            members.take("tool_choice")
            return ToolChoice(value)
        if not isinstance(value, dict):
            return None
        choice = _choice_of(value)
        if choice is not None:
            members.take("tool_choice")
        return choice

    def _output(self, members: Members) -> JsonOutput | None:
        kind = members.peek("response_format")
        kind = kind.get("type") if isinstance(kind, dict) else None
        if kind not in ("text", "json_object", "json_schema"):
            return None
        held = members.child("response_format")
        schema = held.child("json_schema") if held is not None else None
        if held is not None:
            held.take("type")
            self._extra(held)
        if kind == "text":
            return None
        if schema is None:
            return JsonOutput()
        name, description = schema.text("name") or "", schema.text("description") or ""
        output = JsonOutput(
            schema.mapping("schema") or {}, name, description, schema.flag("strict")
        )
        self._extra(schema)
        return output


def _choice_of(value: dict[str, Any]) -> ToolChoice | None:
    """A choice of functions; ``None`` for one that has other things in it."""
    match value:
        case {"type": "function", "function": {"name": str(name), **more}, **rest} if not (
            more or rest
        ):
            return ToolChoice("required", (name,))
        case {
            "type": "allowed_tools",
            "allowed_tools": {"mode": mode, "tools": tools, **more},
            **rest,
        } if isinstance(tools, list) and not (more or rest):
            names = [_name_of(tool) for tool in tools]
            if names and None not in names and mode in ("auto", "required"):
                return ToolChoice(mode, tuple(name for name in names if name is not None))
    return None


def _name_of(tool: object) -> str | None:
    match tool:
        case {"type": "function", "function": {"name": str(name), **more}, **rest} if not (
            more or rest
        ):
            return name
    return None


def _reasoning(members: Members) -> ReasoningOptions | None:
    effort = members.text("reasoning_effort")
    if effort is None:
        return None
    return ReasoningOptions(mode="off" if effort == "none" else None, effort=effort)


def _stop(members: Members) -> tuple[str, ...]:
    if isinstance(members.peek("stop"), str):
        return (members.required("stop"),)
    return members.texts("stop")


def _options(members: Members) -> dict[str, Any]:
    limit, older_limit = members.integer("max_completion_tokens"), members.integer("max_tokens")
    return {
        "max_output_tokens": limit if limit is not None else older_limit,
        "temperature": members.number("temperature"),
        "top_p": members.number("top_p"),
        "frequency_penalty": members.number("frequency_penalty"),
        "presence_penalty": members.number("presence_penalty"),
        "seed": members.integer("seed"),
        "choices": members.integer("n"),
        "logprobs": members.flag("logprobs"),
        "top_logprobs": members.integer("top_logprobs"),
        "logit_bias": members.mapping("logit_bias"),
        "verbosity": members.text("verbosity"),
        "cache_key": members.text("prompt_cache_key"),
        "user": members.text("user"),
        "metadata": members.mapping("metadata"),
        "service_tier": members.text("service_tier"),
    }
