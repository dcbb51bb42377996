"""Finds the features that a canonical request makes use of."""

from __future__ import annotations

from collections.abc import Iterator

from relay_gateway.plugin.canonical.features import Feature
from relay_gateway.plugin.canonical.parts import (
    Audio,
    Base64,
    Document,
    Image,
    Part,
    PlainText,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
    Url,
)
from relay_gateway.plugin.canonical.request import CanonicalRequest, Tool

_OPTIONS = (
    ("max_output_tokens", Feature.MAX_OUTPUT_TOKENS),
    ("temperature", Feature.TEMPERATURE),
    ("top_p", Feature.TOP_P),
    ("top_k", Feature.TOP_K),
    ("frequency_penalty", Feature.FREQUENCY_PENALTY),
    ("presence_penalty", Feature.PRESENCE_PENALTY),
    ("seed", Feature.SEED),
    ("logit_bias", Feature.LOGIT_BIAS),
    ("stop", Feature.STOP),
    ("verbosity", Feature.VERBOSITY),
    ("cache", Feature.CACHE_MARK),
    ("cache_key", Feature.CACHE_KEY),
    ("user", Feature.USER),
    ("metadata", Feature.METADATA),
    ("service_tier", Feature.SERVICE_TIER),
    ("tools", Feature.TOOLS),
    ("logprobs", Feature.LOGPROBS),
)
_MEDIA = {
    (Image, Url): Feature.IMAGE_URL,
    (Image, Base64): Feature.IMAGE_DATA,
    (Document, Url): Feature.DOCUMENT_URL,
    (Document, Base64): Feature.DOCUMENT_DATA,
    (Document, PlainText): Feature.DOCUMENT_TEXT,
    (Audio, Url): Feature.AUDIO_URL,
    (Audio, Base64): Feature.AUDIO_DATA,
}


def features_of(request: CanonicalRequest, format_name: str) -> set[Feature]:
    """What ``request`` asks for that a codec of ``format_name`` may not be able to write."""
    return {
        *_options(request),
        *_tools(request),
        *_reasoning_options(request),
        *_conversation(request, format_name),
    }


def _options(request: CanonicalRequest) -> Iterator[Feature]:
    for member, feature in _OPTIONS:
        if getattr(request, member) not in (None, False, ()):
            yield feature
    if request.choices not in (None, 1):
        yield Feature.CHOICES
    if request.output is not None:
        yield Feature.JSON_OBJECT if request.output.schema is None else Feature.JSON_SCHEMA


def _tools(request: CanonicalRequest) -> Iterator[Feature]:
    for tool in request.tools:
        if isinstance(tool, Tool):
            if tool.strict:
                yield Feature.STRICT_TOOL
            if tool.cache is not None:
                yield Feature.CACHE_MARK
    if request.parallel_tool_calls is False:
        yield Feature.ONE_TOOL_AT_A_TIME
    choice = request.tool_choice
    if choice is None:
        return
    if choice.names and (choice.mode == "auto" or len(choice.names) > 1):
        yield Feature.ALLOWED_TOOLS
    else:
        yield Feature.FORCED_TOOL if choice.mode == "required" else Feature.TOOL_CHOICE


def _reasoning_options(request: CanonicalRequest) -> Iterator[Feature]:
    options = request.reasoning
    if options is None:
        return
    if options.mode == "off" or options.effort == "none":
        yield Feature.REASONING_OFF
    elif options.effort is not None:
        yield Feature.REASONING_EFFORT
    if options.budget is not None:
        yield Feature.REASONING_BUDGET
    if options.summary is not None:
        yield Feature.REASONING_SUMMARY


def _conversation(request: CanonicalRequest, format_name: str) -> Iterator[Feature]:
    began = False
    for message in request.messages:
        if message.role in ("system", "developer"):
            yield Feature.SYSTEM_IN_PLACE if began else Feature.SYSTEM
            if message.role == "developer":
                yield Feature.DEVELOPER
        else:
            began = True
        if message.name:
            yield Feature.PARTICIPANT_NAME
        for part in message.parts:
            if isinstance(part, Reasoning):
                maker = part.blob.format if part.blob is not None else request.origin.format
                own = maker == format_name
                yield Feature.REASONING if own else Feature.FOREIGN_REASONING
            else:
                yield from _part(part)


def _part(part: Part) -> Iterator[Feature]:
    if isinstance(part, Image | Document | Audio):
        yield from _media(part)
    elif isinstance(part, Refusal):
        yield Feature.REFUSAL
    elif isinstance(part, ToolResult):
        yield from _tool_result(part)
    elif isinstance(part, Text | ToolCall) and part.cache is not None:
        yield Feature.CACHE_MARK


def _media(part: Image | Document | Audio) -> Iterator[Feature]:
    yield _MEDIA[type(part), type(part.source)]
    if part.cache is not None:
        yield Feature.CACHE_MARK
    if isinstance(part, Document):
        if part.name:
            yield Feature.DOCUMENT_NAME
        if part.context:
            yield Feature.DOCUMENT_CONTEXT
    elif isinstance(part, Image) and part.detail not in ("", "auto"):
        yield Feature.IMAGE_DETAIL


def _tool_result(result: ToolResult) -> Iterator[Feature]:
    if result.is_error:
        yield Feature.TOOL_RESULT_ERROR
    if result.cache is not None:
        yield Feature.CACHE_MARK
    for part in result.parts:
        if isinstance(part, Image | Document):
            yield Feature.TOOL_RESULT_MEDIA
            yield from _media(part)
        elif isinstance(part, Text) and part.cache is not None:
            yield Feature.CACHE_MARK
