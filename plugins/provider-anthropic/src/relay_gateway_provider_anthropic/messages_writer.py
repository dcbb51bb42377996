"""Writes canonical requests as requests for Messages."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from relay_gateway.plugin.canonical import (
    Base64,
    Blob,
    CacheMark,
    CanonicalRequest,
    Document,
    Image,
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
from relay_gateway.plugin.canonical.features import Feature
from relay_gateway.plugin.codec import Draft, EncodeOptions, arguments_of
from relay_gateway.plugin.members import refuse
from relay_gateway_provider_anthropic.words import FORMAT, REDACTED, TIERS, TTL_SECONDS

DEFAULT_MAX_TOKENS = 4096
"""Sent where neither the caller nor the catalog says a limit: every model can give that."""
MIN_BUDGET = 1024
"""The smallest thinking budget the API takes."""

_SYSTEM = ("system", "developer")
_TIER_WORDS = {tier: word for word, tier in TIERS.items()}
_EFFORTS = {"minimal": "low"}
_BAD_IN_ID = re.compile(r"[^A-Za-z0-9_-]")


class MessagesWriter:
    """Writes one request."""

    def __init__(self, request: CanonicalRequest, model: str, options: EncodeOptions) -> None:
        self._request = request
        self._own = request.origin.format == FORMAT
        limit = request.max_output_tokens
        self._limit = limit or options.max_output_tokens or DEFAULT_MAX_TOKENS
        self._draft = Draft({"model": model, "max_tokens": self._limit})

    def write(self) -> Draft:
        """The whole request."""
        request = self._request
        self._conversation(request.messages)
        self._thinking(request.reasoning)
        self._options(request)
        self._tools(request)
        if self._own:
            self._draft.put(**request.extra)
        return self._draft

    def _options(self, request: CanonicalRequest) -> None:
        self._draft.put(
            stream=request.stream or None,
            temperature=self._temperature(),
            top_p=request.top_p,
            top_k=request.top_k,
            stop_sequences=list(request.stop) or None,
            cache_control=_cache(request.cache),
            metadata={"user_id": request.user} if request.user is not None else None,
        )
        if request.service_tier in _TIER_WORDS:
            self._draft.put(service_tier=_TIER_WORDS[request.service_tier])
        elif request.service_tier is not None:
            self._drop(Feature.SERVICE_TIER)

    def _drop(self, feature: Feature) -> None:
        self._draft.dropped.append(self._request.origin.names.get(feature, feature.value))

    def _thinking(self, options: ReasoningOptions | None) -> None:
        config: dict[str, Any] = {}
        if options is not None:
            self._draft.put(thinking=_thinking(options, self._limit))
            if options.effort not in (None, "none"):
                config["effort"] = _EFFORTS.get(options.effort or "", options.effort)
        if self._request.output is not None:
            config["format"] = {"type": "json_schema", "schema": self._request.output.schema}
        self._draft.put(output_config=config or None)

    def _temperature(self) -> float | None:
        """At most 1; and the API takes no other one than 1 beside thinking."""
        wanted = self._request.temperature
        thinking = self._draft.body.get("thinking", {"type": "disabled"})
        if wanted is None or self._own:
            return wanted
        if thinking["type"] != "disabled" and wanted != 1:
            self._drop(Feature.TEMPERATURE)
            return None
        return min(wanted, 1)

    def _tools(self, request: CanonicalRequest) -> None:
        choice = request.tool_choice
        tools: Iterable[Tool | NativeTool] = request.tools
        if choice is not None and len(choice.names) > 1:
            tools = [tool for tool in tools if isinstance(tool, Tool) and tool.name in choice.names]
        written = [self._tool(tool) for tool in tools]
        self._draft.put(tools=written or None)
        if written:
            self._draft.put(tool_choice=_tool_choice(choice, request.parallel_tool_calls))

    def _tool(self, tool: Tool | NativeTool) -> dict[str, Any]:
        if isinstance(tool, NativeTool):
            return tool.data
        written: dict[str, Any] = {"name": tool.name}
        if tool.description:
            written["description"] = tool.description
        written["input_schema"] = tool.parameters or {"type": "object", "properties": {}}
        if tool.strict is not None:
            written["strict"] = tool.strict
        return self._with(written, tool.cache, tool.extra)

    def _with(
        self, written: dict[str, Any], cache: CacheMark | None, extra: dict[str, Any]
    ) -> dict[str, Any]:
        if cache is not None:
            written["cache_control"] = _cache(cache)
        return written | extra if self._own else written

    def _conversation(self, messages: tuple[Message, ...]) -> None:
        count = next((n for n, each in enumerate(messages) if each.role not in _SYSTEM), None)
        first, later = messages[:count], messages[count:] if count is not None else ()
        blocks = [block for message in first for block in self._blocks(message)]
        self._draft.put(system=_simplest(blocks))
        self._draft.body["messages"] = list(self._turns(later))

    def _turns(self, messages: Iterable[Message]) -> Iterator[dict[str, Any]]:
        waiting: list[dict[str, Any]] = []
        for message in messages:
            blocks = list(self._blocks(message))
            if message.role == "tool":
                waiting += blocks  # all results belong into the one turn after the calls
                continue
            if message.role == "user" and waiting:
                blocks = waiting + blocks
                waiting = []
            if waiting:
                yield {"role": "user", "content": waiting}
                waiting = []
            if blocks or self._own:
                yield self._turn(message, blocks)
        if waiting:
            yield {"role": "user", "content": waiting}

    def _turn(self, message: Message, blocks: list[dict[str, Any]]) -> dict[str, Any]:
        role = "system" if message.role in _SYSTEM else message.role
        written: dict[str, Any] = {"role": role, "content": _simplest(blocks) or ""}
        return written | message.extra if self._own else written

    def _blocks(self, message: Message) -> Iterator[dict[str, Any]]:
        for part in message.parts:
            block = self._block(part)
            if block is not None:
                yield block

    def _block(self, part: Part) -> dict[str, Any] | None:
        match part:
            case NativePart(data=data):
                return data
            case Text() | Refusal():
                return self._text(part)
            case Reasoning():
                return _thought(part, own=self._own)
            case Image() | Document():
                return self._media(part)
            case ToolCall():
                return self._tool_use(part)
            case ToolResult():
                return self._tool_result(part)
        raise AssertionError(f"{type(part).__name__} is refused before it gets here")

    def _text(self, part: Text | Refusal) -> dict[str, Any] | None:
        """A block of text; the API takes no empty ones, of which other formats are full."""
        if not part.text and not self._own:
            return None
        return self._with({"type": "text", "text": part.text}, _mark(part), part.extra)

    def _media(self, part: Image | Document) -> dict[str, Any]:
        written: dict[str, Any] = {
            "type": "image" if isinstance(part, Image) else "document",
            "source": _source(part.source),
        }
        if isinstance(part, Document):
            written |= {"title": part.name} if part.name else {}
            written |= {"context": part.context} if part.context else {}
        return self._with(written, part.cache, part.extra)

    def _tool_use(self, call: ToolCall) -> dict[str, Any]:
        try:
            arguments = arguments_of(call)
        except ValueError as error:
            raise refuse(
                "messages", f"has a tool call {call.id!r} whose arguments are no JSON object"
            ) from error
        written = {
            "type": "tool_use",
            "id": _identifier(call.id),
            "name": call.name,
            "input": arguments,
        }
        return self._with(written, call.cache, call.extra)

    def _tool_result(self, result: ToolResult) -> dict[str, Any]:
        written: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": _identifier(result.call_id),
        }
        blocks = [block for part in result.parts if (block := self._block(part)) is not None]
        if blocks:
            written["content"] = _simplest(blocks)
        if result.is_error:
            written["is_error"] = True
        return self._with(written, result.cache, result.extra)


def _mark(part: Text | Refusal) -> CacheMark | None:
    return part.cache if isinstance(part, Text) else None


def _simplest(blocks: list[dict[str, Any]]) -> Any:
    """One text without anything else as a string, otherwise the blocks; nothing for none."""
    if len(blocks) == 1 and blocks[0].keys() == {"type", "text"}:
        return blocks[0]["text"]
    return blocks or None


def _identifier(call_id: str) -> str:
    """``call_id`` in the letters the API takes; what is changed stays different from others."""
    if not _BAD_IN_ID.search(call_id):
        return call_id
    return f"{_BAD_IN_ID.sub('_', call_id)}_{zlib.crc32(call_id.encode()):08x}"


def _cache(cache: CacheMark | None) -> dict[str, str] | None:
    if cache is None:
        return None
    mark = {"type": "ephemeral"}
    if cache.seconds is not None:
        mark["ttl"] = "5m" if cache.seconds <= TTL_SECONDS["5m"] else "1h"
    return mark


def _source(source: Url | Base64 | PlainText) -> dict[str, str]:
    match source:
        case Url(url=url):
            return {"type": "url", "url": url}
        case Base64(media_type=media_type, data=data):
            return {"type": "base64", "media_type": media_type, "data": data}
        case PlainText(text=text):
            return {"type": "text", "media_type": "text/plain", "data": text}


def _thought(part: Reasoning, *, own: bool) -> dict[str, Any] | None:
    """Thinking of this provider; what others signed, or nobody, is of no use to it."""
    blob = part.blob or (Blob(FORMAT, "") if own else None)
    if blob is None or blob.format != FORMAT:
        return None
    if blob.kind == REDACTED:
        return {"type": "redacted_thinking", "data": blob.data}
    text = "\n\n".join(part.summary or part.content)
    return {"type": "thinking", "thinking": text, "signature": blob.data}


def _thinking(options: ReasoningOptions, limit: int) -> dict[str, Any] | None:
    if options.mode == "off" or options.effort == "none":
        return {"type": "disabled"}
    if options.budget is not None:
        budget = max(MIN_BUDGET, min(options.budget, limit - 1))
        written: dict[str, Any] = {"type": "enabled", "budget_tokens": budget}
    elif options.mode is None and options.effort is None and options.summary is None:
        return None
    else:
        kind = "between_tools" if options.mode == "between_tools" else "adaptive"
        written = {"type": kind}
    if options.summary is not None:
        written["display"] = "omitted" if options.summary == "omitted" else "summarized"
    return written


def _tool_choice(choice: ToolChoice | None, parallel: bool | None) -> dict[str, Any] | None:  # noqa: FBT001 - the caller's own member
    if choice is None:
        return (
            None if parallel is not False else {"type": "auto", "disable_parallel_tool_use": True}
        )
    if choice.mode == "none":
        return {"type": "none"}
    if choice.mode == "required" and len(choice.names) == 1:
        written: dict[str, Any] = {"type": "tool", "name": choice.names[0]}
    else:
        written = {"type": "any" if choice.mode == "required" else "auto"}
    if parallel is not None:
        written["disable_parallel_tool_use"] = not parallel
    return written
