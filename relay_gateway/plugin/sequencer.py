"""Puts the parts of a stream one after the other, for formats in which only one part is open."""

from __future__ import annotations

from collections import deque

from relay_gateway.errors import UpstreamProtocolError
from relay_gateway.plugin.canonical import (
    ArgumentsDelta,
    Failed,
    Finished,
    PartStarted,
    PartStopped,
    ReasoningDelta,
    RefusalDelta,
    Signed,
    StreamEvent,
    TextDelta,
)

MAX_HELD = 16 * 1024 * 1024
"""Characters that a stream may make a codec keep."""

_OF_A_PART = (
    PartStarted,
    TextDelta,
    RefusalDelta,
    ReasoningDelta,
    Signed,
    ArgumentsDelta,
    PartStopped,
)


class Sequencer:
    """Lets the events of the open part through and holds those of later parts until it stops.

    Parts that are open side by side are rare, so nearly always nothing is held.
    """

    def __init__(self) -> None:
        self._open: int | None = None
        self._waiting: dict[int, deque[StreamEvent]] = {}
        self._held = 0

    def feed(self, event: StreamEvent) -> list[StreamEvent]:
        """The events that may go on now, in order. Raises :class:`UpstreamProtocolError` when more
        than :data:`MAX_HELD` characters would have to be held."""
        if not isinstance(event, _OF_A_PART):
            return [*self._rest(), event] if isinstance(event, Finished | Failed) else [event]
        if self._open is None:
            self._open = event.index
        if event.index != self._open:
            self._hold(event)
            return []
        if not isinstance(event, PartStopped):
            return [event]
        return [event, *self._next()]

    def _hold(self, event: StreamEvent) -> None:
        if isinstance(event, TextDelta | ArgumentsDelta | ReasoningDelta | RefusalDelta):
            self._held += len(event.text)
            if self._held > MAX_HELD:
                raise UpstreamProtocolError("the upstream opened too many parts at once")
        if isinstance(event, _OF_A_PART):
            self._waiting.setdefault(event.index, deque()).append(event)

    def _next(self) -> list[StreamEvent]:
        """What is held of the parts that come next, up to one that is still open."""
        released: list[StreamEvent] = []
        self._open = None
        while self._waiting and self._open is None:
            index = next(iter(self._waiting))
            events = self._waiting.pop(index)
            released += events
            if not isinstance(events[-1], PartStopped):
                self._open = index
        if not self._waiting:
            self._held = 0
        return released

    def _rest(self) -> list[StreamEvent]:
        """What is held when the stream ends."""
        events = [event for held in self._waiting.values() for event in held]
        self._waiting.clear()
        return events


class JsonEnd:
    """Tells when a JSON object or array that comes in pieces is complete."""

    __slots__ = ("_depth", "_escaped", "_in_string", "complete")

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = False
        self._escaped = False
        self.complete = False

    def feed(self, text: str) -> None:
        """The next piece."""
        for character in text:
            if self._in_string:
                self._in_text(character)
            elif character == '"':
                self._in_string = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                self.complete = self._depth == 0

    def _in_text(self, character: str) -> None:
        if self._escaped:
            self._escaped = False
        elif character == "\\":
            self._escaped = True
        elif character == '"':
            self._in_string = False
