"""Reads requests for generateContent into the canonical form."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from relay_gateway.plugin.canonical import (
    CanonicalRequest,
    JsonOutput,
    Message,
    NativeTool,
    Origin,
    ReasoningOptions,
    Role,
    Tool,
    ToolChoice,
)
from relay_gateway.plugin.codec import WireCodec
from relay_gateway.plugin.members import Members, parse_object, refuse
from relay_gateway_provider_gemini.parts_reader import PartsReader, child, objects
from relay_gateway_provider_gemini.schemas import json_schema
from relay_gateway_provider_gemini.words import TIERS, camel

_ROLES: dict[str, Role] = {"user": "user", "model": "assistant", "function": "tool"}
_MODES: dict[str, Any] = {
    "AUTO": "auto",
    "MODE_UNSPECIFIED": "auto",
    "VALIDATED": "auto",
    "ANY": "required",
    "NONE": "none",
}


class RequestReader:
    """Reads one request; ``origin`` collects what is not held."""

    def __init__(self, codec: WireCodec) -> None:
        self._codec = codec
        self._origin: Origin = codec.origin()
        self._parts = PartsReader(codec, self._origin)

    def read(self, body: bytes, model: str, *, streamed: bool) -> CanonicalRequest:
        """The whole request; the path says the model and whether a stream is wanted."""
        members = Members(camel(parse_object(body).rest()), "")
        members.take("model")
        if not members.has("contents"):
            raise refuse("contents", "is missing; it must be a list")
        config = child(members, "generationConfig") or Members({}, "generationConfig")
        request = CanonicalRequest(
            model=model,
            messages=tuple(self._conversation(members)),
            stream=streamed,
            stream_usage=True,
            tools=tuple(self._tools(members)),
            tool_choice=self._tool_choice(members),
            output=_output(config),
            reasoning=self._reasoning(config),
            service_tier=_tier(members),
            origin=self._origin,
            **_options(config),
        )
        if config.peek("responseModalities") == ["TEXT"]:
            config.take("responseModalities")  # as when nothing is said
        left = self._extra(config)
        request.extra = self._extra(members) | ({"generationConfig": left} if left else {})
        return request

    def _extra(self, members: Members) -> dict[str, Any]:
        return self._codec.note_unheld(self._origin, members)

    def _conversation(self, members: Members) -> Iterator[Message]:
        system = child(members, "systemInstruction")
        if system is not None:
            system.take("role")
            parts = self._parts.parts(system)
            if parts:
                yield Message("system", parts, extra=self._extra(system))
        for content in objects(members, "contents"):
            role = content.one_of("role", *_ROLES) or "user"
            yield Message(_ROLES[role], self._parts.parts(content), extra=self._extra(content))

    def _tools(self, members: Members) -> Iterator[Tool | NativeTool]:
        for tool in objects(members, "tools"):
            for declared in objects(tool, "functionDeclarations"):
                yield self._tool(declared)
            if tool.left():
                yield self._codec.native_tool(self._origin, tool)

    def _tool(self, members: Members) -> Tool:
        name, description = members.required("name"), members.text("description") or ""
        parameters = members.mapping("parametersJsonSchema")
        extra: dict[str, Any] = {}
        if parameters is None and members.has("parameters"):
            extra["parameters"] = members.mapping("parameters")
            parameters = json_schema(extra["parameters"])
        return Tool(name, description, parameters, extra=extra | self._extra(members))

    def _tool_choice(self, members: Members) -> ToolChoice | None:
        config = child(members, "toolConfig")
        calling = child(config, "functionCallingConfig") if config is not None else None
        if config is not None:
            self._extra(config)
        if calling is None:
            return None
        mode, names = calling.one_of("mode", *_MODES), calling.texts("allowedFunctionNames")
        self._extra(calling)
        return ToolChoice(_MODES[mode or "AUTO"], names)

    def _reasoning(self, config: Members) -> ReasoningOptions | None:
        thinking = child(config, "thinkingConfig")
        if thinking is None:
            return None
        budget, level = thinking.integer("thinkingBudget"), thinking.text("thinkingLevel")
        shown = thinking.flag("includeThoughts")
        self._extra(thinking)
        summary = None if shown is None else ("auto" if shown else "omitted")
        effort = level.lower() if level is not None else None
        if budget == 0:
            return ReasoningOptions("off", effort, None, summary)
        if budget is not None and budget < 0:
            return ReasoningOptions("adaptive", effort, None, summary)
        return ReasoningOptions(None, effort, budget, summary)


def _tier(members: Members) -> str | None:
    tier = members.text("serviceTier")
    return TIERS.get(tier.lower(), tier) if tier is not None else None


def _output(config: Members) -> JsonOutput | None:
    kind = config.peek("responseMimeType")
    if kind == "text/plain":
        config.take("responseMimeType")
    if kind != "application/json":
        return None
    config.take("responseMimeType")
    schema = config.mapping("responseJsonSchema")
    if schema is None:
        schema = json_schema(config.mapping("responseSchema"))
    return JsonOutput(schema)


def _options(config: Members) -> dict[str, Any]:
    return {
        "max_output_tokens": config.integer("maxOutputTokens"),
        "temperature": config.number("temperature"),
        "top_p": config.number("topP"),
        "top_k": config.integer("topK"),
        "frequency_penalty": config.number("frequencyPenalty"),
        "presence_penalty": config.number("presencePenalty"),
        "seed": config.integer("seed"),
        "choices": config.integer("candidateCount"),
        "logprobs": config.flag("responseLogprobs"),
        "top_logprobs": config.integer("logprobs"),
        "stop": config.texts("stopSequences"),
    }
