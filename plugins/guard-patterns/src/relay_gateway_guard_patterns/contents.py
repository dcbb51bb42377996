"""Where texts are in requests and answers; what a rule changes is made anew, all else stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from relay_gateway.plugin.canonical import (
    CanonicalRequest,
    CanonicalResponse,
    Document,
    Message,
    NativePart,
    Part,
    PlainText,
    Reasoning,
    Refusal,
    Text,
    ToolCall,
    ToolResult,
)
from relay_gateway_guard_patterns.config import Place
from relay_gateway_guard_patterns.screen import Screen, Screens

T = TypeVar("T")
PartT = TypeVar("PartT")
StructT = TypeVar("StructT", bound=msgspec.Struct)


def screened_request(request: CanonicalRequest, screens: Screens) -> CanonicalRequest:
    """``request`` with masks; itself where nothing matches. Raises :class:`DeniedError`."""
    messages = _each(request.messages, lambda message: _message(message, screens))
    if messages is request.messages:
        return request
    return msgspec.structs.replace(request, messages=messages)


def screened_response(response: CanonicalResponse, screens: Screens) -> CanonicalResponse:
    """``response`` with masks; itself where nothing matches. Raises :class:`DeniedError`.

    Probabilities of tokens spell the text out, so they go when it changes.
    """
    parts = _each(response.parts, lambda part: _part(part, "messages", screens))
    if parts is response.parts:
        return response
    return msgspec.structs.replace(response, parts=parts, logprobs=None)


def screened_json(text: str, screen: Screen) -> str:
    """JSON text with masks inside of its strings. What is no JSON is screened as it stands."""
    try:
        value = msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return screen.applied(text)
    changed = _value(value, screen)
    return text if changed is value else msgspec.json.encode(changed).decode()


def _message(message: Message, screens: Screens) -> Message:
    place: Place = "system" if message.role in ("system", "developer") else "messages"
    return _with(
        message,
        parts=_each(message.parts, lambda part: _part(part, place, screens)),
        extra=_extra(message.extra, screens.at(place)),
    )


def _part(part: Part, place: Place, screens: Screens) -> Part:
    if isinstance(part, ToolCall):
        return _tool_call(part, screens.at("tool_arguments"))
    if isinstance(part, ToolResult):
        return _tool_result(part, screens.at("tool_results"))
    screen = screens.at(place)
    return part if screen is None else _plain(part, screen)


def _tool_result(result: ToolResult, screen: Screen | None) -> ToolResult:
    if screen is None:
        return result
    parts = _each(result.parts, lambda part: _plain(part, screen))
    return _with(result, parts=parts, extra=_extra(result.extra, screen))


def _plain(part: PartT, screen: Screen) -> PartT:
    changed = _screened(part, screen)
    # Of the kind that it was, which the types do not say.
    return changed if isinstance(changed, type(part)) else part


def _screened(part: object, screen: Screen) -> object:
    if isinstance(part, Text | Refusal):
        extra = _extra(part.extra, screen)
        return _with(part, text=screen.applied(part.text), extra=extra)
    if isinstance(part, Reasoning):
        return _reasoning(part, screen)
    if isinstance(part, Document):
        return _document(part, screen)
    if isinstance(part, NativePart):
        return _with(part, data=_value(part.data, screen))
    return part


def _tool_call(call: ToolCall, screen: Screen | None) -> ToolCall:
    if screen is None:
        return call
    extra = _extra(call.extra, screen)
    return _with(call, arguments=screened_json(call.arguments, screen), extra=extra)


def _reasoning(part: Reasoning, screen: Screen) -> Reasoning:
    """A thought that was changed is no longer what its maker has signed."""
    summary, content = _each(part.summary, screen.applied), _each(part.content, screen.applied)
    if summary is part.summary and content is part.content:
        return part
    return msgspec.structs.replace(part, summary=summary, content=content, blob=None)


def _document(part: Document, screen: Screen) -> Document:
    source = part.source
    if isinstance(source, PlainText):
        source = _with(source, text=screen.applied(source.text))
    name, context = screen.applied(part.name), screen.applied(part.context)
    return _with(part, source=source, name=name, context=context)


def _extra(extra: dict[str, Any], screen: Screen | None) -> dict[str, Any]:
    return _value(extra, screen) if extra and screen is not None else extra


def _value(value: T, screen: Screen) -> T:
    """A JSON value with masks in its texts; ``value`` itself where nothing matches."""
    changed: Any = value
    if isinstance(value, str):
        text = screen.applied(value)
        changed = value if text == value else text
    elif isinstance(value, list):
        items = [_value(item, screen) for item in value]
        changed = items if _differs(items, value) else value
    elif isinstance(value, dict):
        members = {screen.applied(name): _value(item, screen) for name, item in value.items()}
        same = list(members) == list(value) and not _differs(members.values(), value.values())
        changed = value if same else members
    result: T = changed
    return result


def _differs(new: Any, old: Any) -> bool:
    return any(one is not other for one, other in zip(new, old, strict=True))


def _each(items: tuple[T, ...], change: Callable[[T], T]) -> tuple[T, ...]:
    changed = tuple(change(item) for item in items)
    return (
        changed
        if any(a is not b and a != b for a, b in zip(changed, items, strict=True))
        else items
    )


def _with(struct: StructT, **members: Any) -> StructT:
    """``struct`` with these members; itself where they are what it has."""
    for name, value in members.items():
        if getattr(struct, name) is not value and getattr(struct, name) != value:
            return msgspec.structs.replace(struct, **members)
    return struct
