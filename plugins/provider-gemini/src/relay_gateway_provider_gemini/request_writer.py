"""Writes canonical requests as requests for generateContent."""

from __future__ import annotations

import base64
import mimetypes
from collections.abc import Iterable, Iterator
from typing import Any

from relay_gateway.plugin.canonical import (
    Audio,
    Base64,
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
from relay_gateway.plugin.codec import Draft, arguments_of
from relay_gateway.plugin.members import refuse
from relay_gateway_provider_gemini.parts_reader import as_object
from relay_gateway_provider_gemini.words import CALL_PREFIX, FORMAT, TIERS, UNSIGNED

_SYSTEM = ("system", "developer")
_TIER_WORDS = {tier: word for word, tier in TIERS.items()}
_MODES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
_LEVELS = {"max": "xhigh"}
FOREIGN_CALL = "skip_thought_signature_validator"
"""The signature that the API wants on calls which another model made (guide "Thought signatures"):
without one it refuses them."""


class RequestWriter:
    """Writes one request."""

    def __init__(self, request: CanonicalRequest) -> None:
        self._request = request
        self._own = request.origin.format == FORMAT
        self._names: dict[str, str] = {}
        self._draft = Draft()

    def write(self) -> Draft:
        """The whole request, but for the model, which is in the path."""
        request = self._request
        system = [message for message in request.messages if message.role in _SYSTEM]
        others = [message for message in request.messages if message.role not in _SYSTEM]
        blocks = [part for message in system for part in self._parts(message)]
        if blocks:
            self._draft.put(systemInstruction={"parts": blocks})
        self._draft.body["contents"] = list(self._contents(others))
        self._tools(request)
        self._tier(request.service_tier)
        extra = dict(request.extra) if self._own else {}
        config = self._config(request) | extra.pop("generationConfig", {})
        self._draft.put(generationConfig=config or None, **extra)
        return self._draft

    def _tier(self, tier: str | None) -> None:
        if tier in _TIER_WORDS:
            self._draft.put(serviceTier=_TIER_WORDS[tier])
        elif tier not in (None, "auto"):
            names = self._request.origin.names
            self._draft.dropped.append(names.get(Feature.SERVICE_TIER, "service tier"))

    def _config(self, request: CanonicalRequest) -> dict[str, Any]:
        config: dict[str, Any] = {
            "maxOutputTokens": request.max_output_tokens,
            "temperature": request.temperature,
            "topP": request.top_p,
            "topK": request.top_k,
            "frequencyPenalty": request.frequency_penalty,
            "presencePenalty": request.presence_penalty,
            "seed": request.seed,
            "candidateCount": request.choices,
            "responseLogprobs": request.logprobs,
            "logprobs": request.top_logprobs,
            "stopSequences": list(request.stop) or None,
            "thinkingConfig": _thinking(request.reasoning),
        }
        if request.output is not None:
            config["responseMimeType"] = "application/json"
            config["responseJsonSchema"] = request.output.schema
        return {name: value for name, value in config.items() if value is not None}

    def _tools(self, request: CanonicalRequest) -> None:
        choice = request.tool_choice
        tools: Iterable[Tool | NativeTool] = request.tools
        if choice is not None and choice.mode == "auto" and choice.names:
            tools = [tool for tool in tools if isinstance(tool, Tool) and tool.name in choice.names]
        declared = [self._tool(tool) for tool in tools if isinstance(tool, Tool)]
        written = [{"functionDeclarations": declared}] if declared else []
        written += [tool.data for tool in tools if isinstance(tool, NativeTool)]
        self._draft.put(tools=written or None)
        if choice is not None and declared:
            calling = _calling(choice)
            self._draft.put(toolConfig={"functionCallingConfig": calling})

    def _tool(self, tool: Tool) -> dict[str, Any]:
        written: dict[str, Any] = {"name": tool.name}
        if tool.description:
            written["description"] = tool.description
        extra = tool.extra if self._own else {}
        if tool.parameters is not None and "parameters" not in extra:
            written["parametersJsonSchema"] = tool.parameters
        return written | extra

    def _contents(self, messages: Iterable[Message]) -> Iterator[dict[str, Any]]:
        waiting: list[dict[str, Any]] = []
        for message in messages:
            parts = list(self._parts(message))
            if message.role == "tool" and not self._own:
                waiting += parts  # all responses belong into the one turn after the calls
                continue
            if waiting and message.role == "user":
                parts, waiting = waiting + parts, []
            if waiting:
                yield {"role": "user", "parts": waiting}
                waiting = []
            if parts or self._own:
                role = "model" if message.role == "assistant" else "user"
                content: dict[str, Any] = {"role": role, "parts": parts}
                yield content | message.extra if self._own else content
        if waiting:
            yield {"role": "user", "parts": waiting}

    def _parts(self, message: Message) -> Iterator[dict[str, Any]]:
        """The parts of a message; a signature by itself goes to the part that follows it."""
        signature: str | None = None
        unsigned = not self._own and message.role == "assistant"
        for part in message.parts:
            if isinstance(part, Reasoning):
                if signature is not None:
                    yield {"text": "", "thoughtSignature": signature}
                signature = _lone_signature(part)
                written = _thought(part, own=self._own) if signature is None else None
            else:
                written = self._part(part)
                if written is not None and signature is None and unsigned and _is_call(written):
                    signature = FOREIGN_CALL
                unsigned = unsigned and not (written is not None and _is_call(written))
                if written is not None and signature is not None:
                    written["thoughtSignature"], signature = signature, None
            if written is not None:
                yield written
        if signature is not None:
            yield {"text": "", "thoughtSignature": signature}

    def _part(self, part: Part) -> dict[str, Any] | None:
        if isinstance(part, NativePart):
            return part.data
        if isinstance(part, Text | Refusal) and not part.text and not self._own:
            return None
        written = self._written(part)
        return written | part.extra if self._own and not isinstance(part, Reasoning) else written

    def _written(self, part: Part) -> dict[str, Any]:
        match part:
            case Text(text=text) | Refusal(text=text):
                return {"text": text}
            case Image(source=source) | Audio(source=source):
                return _media(source)
            case Document():
                return self._document(part)
            case ToolCall():
                return self._call(part)
            case ToolResult():
                return self._result(part)
        raise AssertionError(f"{type(part).__name__} is refused before it gets here")

    def _document(self, part: Document) -> dict[str, Any]:
        source = part.source
        if isinstance(source, PlainText):
            if not self._own:
                return {"text": source.text}
            source = Base64("text/plain", base64.b64encode(source.text.encode()).decode())
        written = _media(source)
        if self._own and part.name:
            next(iter(written.values()))["displayName"] = part.name
        return written

    def _call(self, call: ToolCall) -> dict[str, Any]:
        try:
            arguments = arguments_of(call)
        except ValueError as error:
            raise refuse(
                "messages", f"has a tool call {call.id!r} whose arguments are no JSON object"
            ) from error
        self._names[call.id] = call.name
        return {"functionCall": _identified(call.id) | {"name": call.name, "args": arguments}}

    def _result(self, result: ToolResult) -> dict[str, Any]:
        name = result.name or self._names.get(result.call_id)
        if name is None:
            raise refuse(
                "messages", f"has a result for {result.call_id!r}, a call that is not in it"
            )
        texts = [part.text for part in result.parts if isinstance(part, Text)]
        response = _response("\n\n".join(texts), is_error=result.is_error)
        written: dict[str, Any] = {"name": name, "response": response}
        media = [self._part(part) for part in result.parts if not isinstance(part, Text)]
        if media:
            written["parts"] = media
        return {"functionResponse": _identified(result.call_id) | written}


def _is_call(written: dict[str, Any]) -> bool:
    return "functionCall" in written


def _identified(call_id: str) -> dict[str, Any]:
    """The id of a call, unless it was made up because the API gave none."""
    return {} if call_id.startswith(CALL_PREFIX) else {"id": call_id}


def _response(text: str, *, is_error: bool) -> dict[str, Any]:
    if is_error:
        return {"error": text}
    found = as_object(text)
    return found if found is not None else {"result": text}


def _lone_signature(part: Reasoning) -> str | None:
    """The signature of what follows, if ``part`` is nothing else."""
    if part.blob is None or part.blob.format != FORMAT or part.blob.kind == UNSIGNED:
        return None
    return part.blob.data if not (part.summary or part.content) else None


def _thought(part: Reasoning, *, own: bool) -> dict[str, Any] | None:
    """A thought of this provider; what others signed is of no use to it."""
    blob = part.blob
    if blob is None and not own:
        return None
    if blob is not None and blob.format != FORMAT:
        return None
    text = "\n\n".join(part.summary or part.content)
    written: dict[str, Any] = {"text": text, "thought": True}
    if blob is not None and blob.kind != UNSIGNED:
        written["thoughtSignature"] = blob.data
    return written


def _media(source: Url | Base64) -> dict[str, Any]:
    if isinstance(source, Base64):
        return {"inlineData": {"mimeType": source.media_type, "data": source.data}}
    data = {"fileUri": source.url}
    media_type = source.media_type or mimetypes.guess_type(source.url.partition("?")[0])[0]
    if media_type:
        data["mimeType"] = media_type
    return {"fileData": data}


def _calling(choice: ToolChoice) -> dict[str, Any]:
    calling: dict[str, Any] = {"mode": _MODES[choice.mode]}
    if choice.names and choice.mode == "required":
        calling["allowedFunctionNames"] = list(choice.names)
    return calling


def _thinking(options: ReasoningOptions | None) -> dict[str, Any] | None:
    if options is None:
        return None
    written: dict[str, Any] = {}
    if options.mode == "off" or options.effort == "none":
        written["thinkingBudget"] = 0
    elif options.budget is not None:
        written["thinkingBudget"] = options.budget
    elif options.effort is not None:
        written["thinkingLevel"] = _LEVELS.get(options.effort, options.effort).upper()
    elif options.mode is not None:
        written["thinkingBudget"] = -1
    if options.summary is not None:
        written["includeThoughts"] = options.summary != "omitted"
    return written or None
