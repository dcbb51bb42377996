"""Writes canonical requests as requests for Chat Completions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from relay_gateway.plugin.canonical import (
    Audio,
    Base64,
    CanonicalRequest,
    Document,
    Image,
    JsonOutput,
    Message,
    NativePart,
    NativeTool,
    Part,
    PlainText,
    Reasoning,
    Refusal,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
)
from relay_gateway.plugin.codec import Draft
from relay_gateway_provider_openai.chat_reasoning import FORMAT, message_members
from relay_gateway_provider_openai.effort import effort_of
from relay_gateway_provider_openai.host_config import OpenAIHost
from relay_gateway_provider_openai.media import AUDIO_FORMATS, breakpoint_of, url_of

_AUDIO_NAMES = {media_type: name for name, media_type in AUDIO_FORMATS.items()} | {
    "audio/mp3": "mp3",
    "audio/x-wav": "wav",
}


class ChatWriter:
    """Writes one request, with what ``host`` knows."""

    def __init__(self, request: CanonicalRequest, model: str, host: OpenAIHost) -> None:
        self._host = host
        self._request = request
        self._own = request.origin.format == FORMAT
        self._draft = Draft({"model": model})

    def write(self) -> Draft:
        """The whole request."""
        request = self._request
        self._draft.body["messages"] = list(self._messages())
        self._options(request)
        self._tools(request)
        if request.stream:
            # Usage is always asked for: the answer's own format may have to tell it.
            self._draft.put(stream=True)
            if self._host.stream_usage:
                self._draft.put(stream_options={"include_usage": True})
        if self._own:
            self._draft.put(**request.extra)
        return self._draft

    def _options(self, request: CanonicalRequest) -> None:
        self._draft.put(**{self._host.max_tokens_field: request.max_output_tokens})
        self._draft.put(
            temperature=request.temperature,
            top_p=request.top_p,
            frequency_penalty=request.frequency_penalty,
            presence_penalty=request.presence_penalty,
            seed=request.seed,
            n=request.choices,
            logprobs=request.logprobs,
            top_logprobs=request.top_logprobs,
            logit_bias=request.logit_bias,
            stop=list(request.stop) or None,
            reasoning_effort=effort_of(request.reasoning),
            response_format=_response_format(request.output),
            verbosity=request.verbosity,
            prompt_cache_key=request.cache_key,
            user=request.user,
            metadata=request.metadata,
            service_tier=request.service_tier,
        )

    def _tools(self, request: CanonicalRequest) -> None:
        if request.tools:
            self._draft.put(tools=[self._tool(tool) for tool in request.tools])
            self._draft.put(parallel_tool_calls=request.parallel_tool_calls)
        self._draft.put(tool_choice=_tool_choice(request.tool_choice))

    def _messages(self) -> Iterator[dict[str, Any]]:
        waiting: dict[str, Any] | None = None
        for message in self._request.messages:
            for written in self._message(message):
                if waiting is not None and _continues(waiting, written):
                    _merge(waiting, written)
                    continue
                if waiting is not None:
                    yield waiting
                waiting = written
        if waiting is not None:
            yield waiting

    def _message(self, message: Message) -> Iterator[dict[str, Any]]:
        if message.role == "assistant":
            yield self._named(message, self._assistant(message.parts))
            return
        results = [part for part in message.parts if isinstance(part, ToolResult)]
        others: list[Part] = [part for part in message.parts if not isinstance(part, ToolResult)]
        for result in results:
            others = [*_media_of(result), *others]
            yield self._named(message, self._tool_message(result))
        if others or not results:
            role = "user" if message.role == "tool" else self._role(message.role)
            yield self._named(message, {"role": role, "content": self._content(others)})

    def _role(self, role: str) -> str:
        return "system" if role == "developer" and not self._host.developer_role else role

    def _named(self, message: Message, written: dict[str, Any]) -> dict[str, Any]:
        if message.name:
            written["name"] = message.name
        return written | message.extra if self._own else written

    def _tool_message(self, result: ToolResult) -> dict[str, Any]:
        texts = [part for part in result.parts if not isinstance(part, Image | Document)]
        content = self._content(texts)
        return {"role": "tool", "tool_call_id": result.call_id, "content": content}

    def _assistant(self, parts: Iterable[Part]) -> dict[str, Any]:
        written: dict[str, Any] = {"role": "assistant"}
        said = [part for part in parts if not isinstance(part, Reasoning | ToolCall)]
        calls = [part for part in said if isinstance(part, NativePart)]
        said = [part for part in said if not isinstance(part, NativePart)]
        written["content"] = self._content(said) if said else None
        thoughts = [part for part in parts if isinstance(part, Reasoning)]
        written |= message_members(thoughts, own_only=True)
        written_calls = [self._tool_call(part) for part in parts if isinstance(part, ToolCall)]
        written_calls += [part.data for part in calls]
        if written_calls:
            written["tool_calls"] = written_calls
        return written

    def _tool_call(self, call: ToolCall) -> dict[str, Any]:
        function = {"name": call.name, "arguments": call.arguments or "{}"}
        written = {"id": call.id, "type": "function", "function": function}
        return written | call.extra if self._own else written

    def _tool(self, tool: Tool | NativeTool) -> dict[str, Any]:
        if isinstance(tool, NativeTool):
            return tool.data
        function: dict[str, Any] = {"name": tool.name}
        if tool.description:
            function["description"] = tool.description
        if tool.parameters is not None:
            function["parameters"] = tool.parameters
        if tool.strict is not None:
            function["strict"] = tool.strict
        written = {"type": "function", "function": function}
        return written | tool.extra if self._own else written

    def _content(self, parts: Iterable[Part]) -> str | list[dict[str, Any]]:
        listed = list(parts)
        if len(listed) == 1 and isinstance(listed[0], Text):
            text = listed[0]
            if not self._own or (text.cache is None and not text.extra):
                return text.text
        return [self._part(part) for part in listed]

    def _part(self, part: Part) -> dict[str, Any]:
        if isinstance(part, NativePart):
            return part.data
        written = _written(part)
        if self._own and isinstance(part, Text | Image | Audio | Document):
            written |= breakpoint_of(part.cache) | part.extra
        return written


def _written(part: Part) -> dict[str, Any]:
    match part:
        case Text(text=text):
            return {"type": "text", "text": text}
        case Refusal(text=text):
            return {"type": "refusal", "refusal": text}
        case Image(source=source, detail=detail):
            image = {"url": url_of(source)}
            return {
                "type": "image_url",
                "image_url": image | ({"detail": detail} if detail else {}),
            }
        case Audio(source=Base64(media_type=media_type, data=data)):
            name = _AUDIO_NAMES.get(media_type, media_type.rpartition("/")[2])
            return {"type": "input_audio", "input_audio": {"data": data, "format": name}}
        case Document(source=PlainText(text=text), name=name):
            return {"type": "text", "text": f"{name}\n\n{text}" if name else text}
        case Document(source=Base64() as source, name=name):
            file = {"filename": name or "document.pdf", "file_data": url_of(source)}
            return {"type": "file", "file": file}
    raise AssertionError(f"{type(part).__name__} is refused before it gets here")


def _media_of(result: ToolResult) -> list[Part]:
    return [part for part in result.parts if isinstance(part, Image | Document)]


def _continues(before: dict[str, Any], message: dict[str, Any]) -> bool:
    """Whether both are one turn: calls must be answered right after the message they are in."""
    roles = (before["role"], message["role"])
    return roles == ("assistant", "assistant") and bool(before.get("tool_calls"))


def _merge(before: dict[str, Any], message: dict[str, Any]) -> None:
    calls = [*before.get("tool_calls", ()), *message.get("tool_calls", ())]
    contents = [each["content"] for each in (before, message) if each["content"]]
    if len(contents) == 2:
        contents = [[part for content in contents for part in _listed(content)]]
    before |= message | {"tool_calls": calls, "content": contents[0] if contents else None}


def _listed(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _tool_choice(choice: ToolChoice | None) -> Any:
    if choice is None:
        return None
    if not choice.names:
        return choice.mode
    if choice.mode == "required" and len(choice.names) == 1:
        return {"type": "function", "function": {"name": choice.names[0]}}
    tools = [{"type": "function", "function": {"name": name}} for name in choice.names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": choice.mode, "tools": tools}}


def _response_format(output: JsonOutput | None) -> dict[str, Any] | None:
    if output is None:
        return None
    if output.schema is None:
        return {"type": "json_object"}
    schema: dict[str, Any] = {"name": output.name or "answer", "schema": output.schema}
    if output.description:
        schema["description"] = output.description
    if output.strict is not None:
        schema["strict"] = output.strict
    return {"type": "json_schema", "json_schema": schema}
