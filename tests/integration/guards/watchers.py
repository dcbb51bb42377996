"""Guards that write down what they see, and do as the test says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import msgspec

from relay_gateway.plugin import (
    Allow,
    Guard,
    GuardConfig,
    Refuse,
    Replace,
    Requester,
    StreamGuard,
    hookimpl,
)
from relay_gateway.plugin.canonical import (
    CanonicalRequest,
    CanonicalResponse,
    Message,
    StreamEvent,
    Text,
    TextDelta,
)
from relay_gateway.testing.polyglot import SpokenHost

HOSTS = {
    "chat": SpokenHost("openai", ("openai.chat", "openai.embeddings"), "/v1"),
    "messages": SpokenHost("anthropic", ("anthropic.messages",)),
    "gemini": SpokenHost("gemini", ("gemini.generate",)),
}
Judge = Callable[[Any], Any]


def allow(_content: Any) -> Allow:
    return Allow()


def refuse(_content: Any) -> Refuse:
    return Refuse("it is of no use here")


def shout(content: Any) -> Any:
    """Puts the last words of a request, or the words of an answer, in capitals."""
    if isinstance(content, CanonicalRequest):
        *before, last = content.messages
        loud = msgspec.structs.replace(last, parts=tuple(_loud(part) for part in last.parts))
        return Replace(msgspec.structs.replace(content, messages=(*before, loud)))
    parts = tuple(_loud(part) for part in content.parts)
    return Replace(msgspec.structs.replace(content, parts=parts))


def _loud(part: Any) -> Any:
    if isinstance(part, Text):
        return msgspec.structs.replace(part, text=part.text.upper())
    return part


def fail(_content: Any) -> Any:
    raise RuntimeError("this guard always fails")


async def hang(_content: Any) -> Any:
    await asyncio.Event().wait()


class Loud(StreamGuard):
    """Capitals; refuses at the word that the test names."""

    def __init__(self, guard: Watcher) -> None:
        self._guard = guard

    def event(self, event: StreamEvent) -> Sequence[StreamEvent] | Refuse:
        self._guard.seen.append(event)
        judged = type(self._guard).on_event(event)
        return judged if judged is not None else [event]


def loud_event(event: StreamEvent) -> Any:
    if isinstance(event, TextDelta):
        return [msgspec.structs.replace(event, text=event.text.upper())]
    return None


class Watcher(Guard[GuardConfig]):
    """Seen is everything, by every instance of the class; ``whoever`` asked for what."""

    reads_responses = True
    reads_streams = True
    deadline = 0.2
    seen: ClassVar[list[Any]]
    whoever: ClassVar[list[Requester]]
    on_request: ClassVar[Judge]
    on_response: ClassVar[Judge]
    on_event: ClassVar[Judge]

    def inspect_request(self, request: CanonicalRequest, who: Requester) -> Any:
        self.seen.append(request)
        self.whoever.append(who)
        return type(self).on_request(request)

    async def inspect_response(self, response: CanonicalResponse, who: Requester) -> Any:
        self.seen.append(response)
        judged = type(self).on_response(response)
        return await judged if asyncio.iscoroutine(judged) else judged

    def inspect_stream(self, who: Requester) -> StreamGuard:
        return Loud(self)


class Hooks:
    """Watchers of these names; each is a class of its own."""

    def __init__(self, *names: str, **attributes: Any) -> None:
        self.guards: dict[str, type[Watcher]] = {
            name: type(f"Watcher{name}", (Watcher,), _members(name, attributes)) for name in names
        }

    @hookimpl
    def relay_register_guards(self) -> Sequence[type[Guard[Any]]]:
        return list(self.guards.values())


def _members(name: str, attributes: dict[str, Any]) -> dict[str, Any]:
    judges = {"on_request": allow, "on_response": allow, "on_event": lambda _event: None}
    given = {**judges, **attributes}
    members: dict[str, Any] = {
        key: staticmethod(value) if key in judges else value for key, value in given.items()
    }
    return {"name": name, "seen": [], "whoever": [], **members}


def said(text: str) -> Message:
    return Message("user", (Text(text),))
