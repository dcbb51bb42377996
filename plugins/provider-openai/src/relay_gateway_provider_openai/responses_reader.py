"""Reads requests for Responses into the canonical form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

from relay_gateway.plugin.canonical import (
    Base64,
    Blob,
    CanonicalRequest,
    Document,
    Image,
    JsonOutput,
    Message,
    NativePart,
    NativeTool,
    Origin,
    Part,
    Reasoning,
    ReasoningOptions,
    Refusal,
    Role,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Url,
    unseal,
)
from relay_gateway.plugin.codec import WireCodec
from relay_gateway.plugin.members import Members, parse_object, refuse
from relay_gateway_provider_openai.media import cache_mark, source_of

FORMAT = "openai.responses"
ENCRYPTED = "encrypted"
"""Kind of a blob that is the ``encrypted_content`` of a reasoning item."""
LOGPROBS = "message.output_text.logprobs"
ENCRYPTED_CONTENT = "reasoning.encrypted_content"

_ROLES = ("user", "assistant", "system", "developer")


class ResponsesReader:
    """Reads one request; ``origin`` collects what is not held."""

    def __init__(self, codec: WireCodec) -> None:
        self._codec = codec
        self._origin: Origin = codec.origin()

    def read(self, body: bytes) -> CanonicalRequest:
        """The whole request."""
        members = parse_object(body)
        output, verbosity = self._text_config(members)
        logprobs, include = self._include(members)
        request = CanonicalRequest(
            model=members.required("model"),
            messages=tuple(self._conversation(members)),
            stream=members.flag("stream") or False,
            stream_usage=True,
            tools=tuple(self._tool(each) for each in members.children("tools")),
            tool_choice=_tool_choice(members),
            output=output,
            verbosity=verbosity,
            reasoning=self._reasoning_options(members),
            logprobs=logprobs,
            origin=self._origin,
            **_options(members),
        )
        _take_defaults(members)
        request.extra = include | self._extra(members)
        return request

    def _extra(self, members: Members) -> dict[str, Any]:
        return self._codec.note_unheld(self._origin, members)

    def _conversation(self, members: Members) -> Iterator[Message]:
        instructions = members.text("instructions")
        if instructions is not None:
            yield Message("system", (Text(instructions),))
        if isinstance(members.peek("input"), str):
            yield Message("user", (Text(members.required("input")),))
            return
        yield from _turns(self._item(each) for each in members.children("input"))

    def _item(self, members: Members) -> Message:
        kind = members.peek("type")
        if kind == "function_call":
            return Message("assistant", (self._function_call(members),))
        if kind == "function_call_output":
            return Message("tool", (self._function_output(members),))
        if kind == "reasoning":
            return Message("assistant", (self._reasoning(members),))
        if kind in (None, "message"):
            return self._message(members)
        return Message("user", (self._codec.native_part(self._origin, members),))

    def _message(self, members: Members) -> Message:
        members.take("type")
        for name in ("id", "status"):
            members.take(name)  # they mean something only where responses are stored
        role = cast("Role | None", members.one_of("role", *_ROLES))
        if role is None:
            raise refuse(members.at("role"), "is missing")
        parts = self._content(members, "content")
        return Message(role, parts, extra=self._extra(members))

    def _function_call(self, members: Members) -> Part:
        for name in ("type", "id", "status"):
            members.take(name)
        if members.peek("caller") == {"type": "direct"}:
            members.take("caller")  # as when nothing is said
        call = (members.required("call_id"), members.required("name"))
        return ToolCall(*call, members.text("arguments") or "", extra=self._extra(members))

    def _function_output(self, members: Members) -> Part:
        for name in ("type", "id", "status"):
            members.take(name)
        call_id = members.required("call_id")
        parts = self._content(members, "output")
        held = [part for part in parts if isinstance(part, Text | Image | Document | NativePart)]
        if len(held) != len(parts):
            raise refuse(members.at("output"), "has parts that cannot be the output of a tool")
        return ToolResult(call_id, tuple(held), extra=self._extra(members))

    def _reasoning(self, members: Members) -> Part:
        members.take("type")
        members.take("status")
        item_id, data = members.text("id") or "", members.text("encrypted_content") or ""
        return Reasoning(
            summary=tuple(self._texts(members, "summary", "summary_text")),
            content=tuple(self._texts(members, "content", "reasoning_text")),
            blob=unseal(data) or Blob(FORMAT, data, ENCRYPTED, item_id),
            extra=self._extra(members),
        )

    def _texts(self, members: Members, name: str, kind: str) -> Iterator[str]:
        for each in members.children(name):
            each.one_of("type", kind)
            yield each.required("text")
            self._extra(each)

    def _content(self, members: Members, name: str) -> tuple[Part, ...]:
        if isinstance(members.peek(name), str):
            return (Text(members.required(name)),)
        return tuple(self._part(each) for each in members.children(name))

    def _part(self, members: Members) -> Part:
        read = {
            "input_text": self._text,
            "output_text": self._text,
            "refusal": self._refusal,
            "input_image": self._image,
            "input_file": self._file,
        }.get(members.peek("type"))
        part = read(members) if read is not None else None
        return part or self._codec.native_part(self._origin, members)

    def _text(self, members: Members) -> Part:
        members.take("type")
        for name in ("annotations", "logprobs"):
            if members.peek(name) == []:
                members.take(name)
        return Text(
            members.required("text"), cache_mark(members, self._extra), self._extra(members)
        )

    def _refusal(self, members: Members) -> Part:
        members.take("type")
        return Refusal(members.required("refusal"), self._extra(members))

    def _image(self, members: Members) -> Part | None:
        if not isinstance(members.peek("image_url"), str):
            return None  # a file by its id is known to this provider only
        members.take("type")
        source, detail = source_of(members.required("image_url")), members.text("detail") or ""
        return Image(source, detail, cache_mark(members, self._extra), self._extra(members))

    def _file(self, members: Members) -> Part | None:
        data, url = members.peek("file_data"), members.peek("file_url")
        if not isinstance(data, str) and not isinstance(url, str):
            return None
        members.take("type")
        source: Url | Base64
        if isinstance(data, str):
            found = source_of(members.required("file_data"))
            source = found if isinstance(found, Base64) else Base64("application/pdf", data)
        else:
            source = Url(members.required("file_url"))
        name = members.text("filename") or ""
        return Document(
            source, name, cache=cache_mark(members, self._extra), extra=self._extra(members)
        )

    def _tool(self, members: Members) -> Tool | NativeTool:
        if members.peek("type") != "function":
            return self._codec.native_tool(self._origin, members)
        members.take("type")
        return Tool(
            members.required("name"),
            members.text("description") or "",
            members.mapping("parameters"),
            members.flag("strict"),
            extra=self._extra(members),
        )

    def _text_config(self, members: Members) -> tuple[JsonOutput | None, str | None]:
        config = members.child("text")
        if config is None:
            return None, None
        verbosity, wanted = config.text("verbosity"), config.child("format")
        self._extra(config)
        kind = wanted.one_of("type", "text", "json_object", "json_schema") if wanted else None
        if wanted is None or kind in (None, "text"):
            if wanted is not None:
                self._extra(wanted)
            return None, verbosity
        output = JsonOutput()
        if kind == "json_schema":
            name, description = wanted.text("name") or "", wanted.text("description") or ""
            schema, strict = wanted.mapping("schema") or {}, wanted.flag("strict")
            output = JsonOutput(schema, name, description, strict)
        self._extra(wanted)
        return output, verbosity

    def _reasoning_options(self, members: Members) -> ReasoningOptions | None:
        options = members.child("reasoning")
        if options is None:
            return None
        effort, older = options.text("effort"), options.text("generate_summary")
        summary = options.text("summary") or older
        self._extra(options)
        if effort is None and summary is None:
            return None
        return ReasoningOptions("off" if effort == "none" else None, effort, None, summary)

    def _include(self, members: Members) -> tuple[bool | None, dict[str, Any]]:
        """Whether log probabilities are wanted, and what else is; encrypted reasoning always comes
        along."""
        wanted = members.texts("include")
        others = [each for each in wanted if each not in (LOGPROBS, ENCRYPTED_CONTENT)]
        left = self._extra(Members({"include": others or None}, ""))
        return LOGPROBS in wanted or None, left


def _turns(messages: Iterable[Message]) -> Iterator[Message]:
    """The items with those of one turn of the assistant put together."""
    turn: Message | None = None
    for message in messages:
        if turn is not None and _continues(turn, message):
            turn = Message("assistant", turn.parts + message.parts, extra=turn.extra)
            continue
        if turn is not None:
            yield turn
        turn = message
    if turn is not None:
        yield turn


def _continues(turn: Message, message: Message) -> bool:
    if turn.role != "assistant" or message.role != "assistant" or message.extra:
        return False
    said = any(isinstance(part, Text | Refusal) for part in turn.parts)
    called = any(isinstance(part, ToolCall) for part in turn.parts)
    if any(isinstance(part, ToolCall) for part in message.parts):
        return True
    return not called and not (
        said and any(isinstance(part, Text | Refusal) for part in message.parts)
    )


def _tool_choice(members: Members) -> ToolChoice | None:
    value = members.peek("tool_choice")
    choice = None
    match value:
        case "auto" | "none" | "required":
            choice = ToolChoice(value)
        case {"type": "function", "name": str(name), **rest} if not rest:
            choice = ToolChoice("required", (name,))
        case {
            "type": "allowed_tools",
            "mode": ("auto" | "required") as mode,
            "tools": list(tools),
            **rest,
        } if not rest:
            names = [_name_of(tool) for tool in tools]
            if names and None not in names:
                choice = ToolChoice(mode, tuple(name for name in names if name is not None))
    if choice is not None:
        members.take("tool_choice")
    return choice


def _name_of(tool: object) -> str | None:
    match tool:
        case {"type": "function", "name": str(name), **rest} if not rest:
            return name
    return None


def _take_defaults(members: Members) -> None:
    """Takes what says no more than its absence."""
    for name, value in (("background", False), ("truncation", "disabled"), ("store", False)):
        if members.peek(name) == value:
            members.take(name)


def _options(members: Members) -> dict[str, Any]:
    return {
        "max_output_tokens": members.integer("max_output_tokens"),
        "temperature": members.number("temperature"),
        "top_p": members.number("top_p"),
        "top_logprobs": members.integer("top_logprobs"),
        "parallel_tool_calls": members.flag("parallel_tool_calls"),
        "cache_key": members.text("prompt_cache_key"),
        "user": members.text("user"),
        "metadata": members.mapping("metadata"),
        "service_tier": members.text("service_tier"),
    }
