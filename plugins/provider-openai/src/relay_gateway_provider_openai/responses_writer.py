"""Writes canonical requests as requests for Responses, and the items that answers share with
them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

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
    Part,
    PlainText,
    Reasoning,
    ReasoningOptions,
    Refusal,
    Text,
    Tool,
    ToolCall,
    ToolChoice,
    ToolResult,
    Url,
)
from relay_gateway.plugin.codec import Draft
from relay_gateway_provider_openai.effort import effort_of
from relay_gateway_provider_openai.media import breakpoint_of, url_of
from relay_gateway_provider_openai.responses_reader import ENCRYPTED_CONTENT, FORMAT, LOGPROBS

_SUMMARIES = ("auto", "concise", "detailed")
_CONTENT_TYPES = ("input_image", "input_file", "input_audio")


class ResponsesWriter:
    """Writes one request. It is stateless: nothing is stored, reasoning comes back encrypted."""

    def __init__(self, request: CanonicalRequest, model: str) -> None:
        self._request = request
        self._own = request.origin.format == FORMAT
        self._draft = Draft({"model": model})
        self._said = 0

    def write(self) -> Draft:
        """The whole request."""
        request = self._request
        messages = request.messages
        instructions = instructions_of(messages)
        if instructions is not None:
            self._draft.put(instructions=instructions)
            messages = messages[1:]
        self._draft.body["input"] = [item for each in messages for item in self._items(each)]
        self._options(request)
        self._draft.put(**options_of(request))
        if self._own:
            self._draft.put(**{k: v for k, v in request.extra.items() if k != "include"})
        return self._draft

    def _options(self, request: CanonicalRequest) -> None:
        include = list(request.extra.get("include", ())) if self._own else []
        if request.logprobs:
            include.append(LOGPROBS)
        if _reasons(request):
            include.append(ENCRYPTED_CONTENT)
        self._draft.put(
            stream=request.stream or None,
            store=False,
            include=include or None,
            metadata=request.metadata,
            service_tier=request.service_tier,
            prompt_cache_key=request.cache_key,
            user=request.user,
        )

    def _items(self, message: Message) -> Iterator[dict[str, Any]]:
        said: list[dict[str, Any]] = []
        for part in message.parts:
            item = self._item(part)
            if item is None:
                said += self._content(part, message.role)
                continue
            if said:
                yield self._message(message, said)
                said = []
            if item:
                yield item
        if said or not message.parts:
            yield self._message(message, said)

    def _message(self, message: Message, content: list[dict[str, Any]]) -> dict[str, Any]:
        role = "user" if message.role == "tool" else message.role
        written: dict[str, Any] = {"type": "message", "role": role, "content": content}
        if role == "assistant":
            self._said += 1
            written |= _as_answer(content, self._said)
        return written | message.extra if self._own else written

    def _item(self, part: Part) -> dict[str, Any] | None:
        """The item for ``part``; empty for none, ``None`` for what belongs into a message."""
        match part:
            case ToolCall():
                return self._with(function_call(part), part)
            case ToolResult():
                written = {"type": "function_call_output", "call_id": part.call_id}
                return self._with(written | {"output": self._output(part)}, part)
            case Reasoning(blob=Blob(format="openai.responses") as blob) if blob.data or self._own:
                return self._with(reasoning_item(part, blob.id, blob.data), part)
            case Reasoning():
                return {}
            case NativePart(data=data) if data.get("type") not in _CONTENT_TYPES:
                return data
            case _:
                return None

    def _with(
        self, written: dict[str, Any], part: ToolCall | ToolResult | Reasoning
    ) -> dict[str, Any]:
        return written | part.extra if self._own else written

    def _output(self, result: ToolResult) -> str | list[dict[str, Any]]:
        if len(result.parts) == 1 and isinstance(result.parts[0], Text):
            text = result.parts[0]
            if not self._own or (text.cache is None and not text.extra):
                return text.text
        return [content for part in result.parts for content in self._content(part, "user")]

    def _content(self, part: Part, role: str) -> Iterable[dict[str, Any]]:
        if isinstance(part, NativePart):
            return [part.data]
        written = _written(part, role)
        if self._own and isinstance(part, Text | Image | Document):
            written |= breakpoint_of(part.cache) | part.extra
        return [written]


def _as_answer(content: list[dict[str, Any]], number: int) -> dict[str, Any]:
    """The content of an earlier answer: one plain text as it is, all else only in the full form,
    which has an id."""
    if len(content) == 1 and content[0].keys() == {"type", "text"}:
        return {"content": content[0]["text"]}
    full = [
        {"annotations": []} | part if part["type"] == "output_text" else part for part in content
    ]
    return {"id": f"msg_{number}", "status": "completed", "content": full}


def instructions_of(messages: tuple[Message, ...]) -> str | None:
    """The first system message where it can be said as instructions: as one plain text."""
    if not messages or messages[0].role != "system" or messages[0].extra:
        return None
    parts = messages[0].parts
    text = parts[0] if len(parts) == 1 else None
    if not isinstance(text, Text) or text.cache is not None or text.extra:
        return None
    return text.text


def _written(part: Part, role: str) -> dict[str, Any]:
    match part:
        case Text(text=text):
            kind = "output_text" if role == "assistant" else "input_text"
            return {"type": kind, "text": text}
        case Refusal(text=text):
            return {"type": "refusal", "refusal": text}
        case Image(source=source, detail=detail):
            return {"type": "input_image", "image_url": url_of(source), "detail": detail or "auto"}
        case Document(source=PlainText(text=text), name=name):
            return {"type": "input_text", "text": f"{name}\n\n{text}" if name else text}
        case Document(source=Url(url=url), name=name):
            named = {"filename": name} if name else {}
            return {"type": "input_file", "file_url": url} | named
        case Document(source=Base64() as source, name=name):
            data = {"filename": name or "document.pdf", "file_data": url_of(source)}
            return {"type": "input_file"} | data
    raise AssertionError(f"{type(part).__name__} is refused before it gets here")


def function_call(call: ToolCall) -> dict[str, Any]:
    """The item of a tool call."""
    return {
        "type": "function_call",
        "call_id": call.id,
        "name": call.name,
        "arguments": call.arguments or "{}",
    }


def reasoning_item(part: Reasoning, item_id: str, encrypted: str) -> dict[str, Any]:
    """The item of some reasoning."""
    item: dict[str, Any] = {
        "type": "reasoning",
        "id": item_id,
        "summary": [{"type": "summary_text", "text": text} for text in part.summary],
    }
    if part.content:
        item["content"] = [{"type": "reasoning_text", "text": text} for text in part.content]
    if encrypted:
        item["encrypted_content"] = encrypted
    return item


def options_of(request: CanonicalRequest) -> dict[str, Any]:
    """The options that a response repeats from its request."""
    options = {
        "max_output_tokens": request.max_output_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "top_logprobs": request.top_logprobs,
        "reasoning": _reasoning(request.reasoning),
        "text": _text(request.output, request.verbosity),
        "tools": [_tool(tool, request.origin.format) for tool in request.tools] or None,
        "tool_choice": _tool_choice(request.tool_choice),
        "parallel_tool_calls": request.parallel_tool_calls,
    }
    return {name: value for name, value in options.items() if value is not None}


def _reasons(request: CanonicalRequest) -> bool:
    """Whether reasoning is in play; models without any refuse to be asked for it encrypted."""
    options = request.reasoning
    if options is not None and options.mode != "off":
        return True
    parts = (part for message in request.messages for part in message.parts)
    return any(
        isinstance(part, Reasoning) and part.blob is not None and part.blob.format == FORMAT
        for part in parts
    )


def _reasoning(options: ReasoningOptions | None) -> dict[str, Any] | None:
    if options is None:
        return None
    written: dict[str, Any] = {}
    effort = effort_of(options)
    if effort is not None:
        written["effort"] = effort
    if options.summary is not None and options.summary != "omitted":
        written["summary"] = options.summary if options.summary in _SUMMARIES else "auto"
    return written or None


def _text(output: JsonOutput | None, verbosity: str | None) -> dict[str, Any] | None:
    written: dict[str, Any] = {}
    if output is not None and output.schema is None:
        written["format"] = {"type": "json_object"}
    elif output is not None:
        wanted = {
            "type": "json_schema",
            "name": output.name or "answer",
            "schema": output.schema,
            "description": output.description or None,
            "strict": output.strict,
        }
        written["format"] = {name: value for name, value in wanted.items() if value is not None}
    if verbosity is not None:
        written["verbosity"] = verbosity
    return written or None


def _tool(tool: Tool | NativeTool, origin: str) -> dict[str, Any]:
    if isinstance(tool, NativeTool):
        return tool.data
    written: dict[str, Any] = {"type": "function", "name": tool.name}
    if tool.description:
        written["description"] = tool.description
    # Both must be said here, and elsewhere a schema is not strict unless it says so.
    written |= {"parameters": tool.parameters, "strict": tool.strict}
    if origin == FORMAT:
        return {k: v for k, v in (written | tool.extra).items() if v is not None}
    return written | {"strict": bool(tool.strict)}


def _tool_choice(choice: ToolChoice | None) -> Any:
    if choice is None:
        return None
    if not choice.names:
        return choice.mode
    tools = [{"type": "function", "name": name} for name in choice.names]
    if choice.mode == "required" and len(tools) == 1:
        return tools[0]
    return {"type": "allowed_tools", "mode": choice.mode, "tools": tools}
