"""A streamed answer, screened text by text: what may be part of a match yet is held back."""

from __future__ import annotations

from collections.abc import Sequence

from relay_gateway.plugin import Refuse, StreamGuard
from relay_gateway.plugin.canonical import (
    ArgumentsDelta,
    PartStopped,
    ReasoningDelta,
    RefusalDelta,
    Signed,
    StreamEvent,
    TextDelta,
)
from relay_gateway_guard_patterns.contents import screened_json
from relay_gateway_guard_patterns.screen import DeniedError, Screen, Screens, masked

WINDOWS = 8
"""A match that grows with the stream is waited for until it is so many windows long."""
MAX_ARGUMENTS = 1024 * 1024
"""Characters of the arguments of one tool call, which are held until they are complete."""
_TEXTS = TextDelta | RefusalDelta | ReasoningDelta


class TextScreen:
    """One text that comes in pieces."""

    def __init__(self, screen: Screen, window: int) -> None:
        self._screen = screen
        self._window = window
        self._text = ""
        self._seen = 0
        """1 where the text begins with a character that went out already; it says what precedes."""
        self.changed = False

    def feed(self, text: str) -> str:
        """What of it can go out by now. Raises :class:`DeniedError`."""
        self._text += text
        return self._release(len(self._text) - self._window - 1, final=False)

    def end(self) -> str:
        """The rest. Raises :class:`DeniedError`."""
        return self._release(len(self._text), final=True)

    def _release(self, cut: int, *, final: bool) -> str:
        text, start = self._text, self._seen
        if cut <= start:
            return ""
        settled = []
        for one in self._screen.find(text, start):
            if one.start >= cut:
                break
            grows = one.end == len(text) and one.end - one.start < WINDOWS * self._window
            if grows and not final:
                cut = one.start
                break
            settled.append(one)
            cut = max(cut, one.end)
        if cut <= start:
            return ""
        released = masked(text, settled, start, cut)
        self.changed = self.changed or bool(settled)
        self._text, self._seen = text[cut - 1 :], 1
        return released


class PatternStream(StreamGuard):
    """Screens one answer."""

    def __init__(self, screens: Screens, window: int) -> None:
        self._texts_screen = screens.at("messages")
        self._arguments_screen = screens.at("tool_arguments")
        self._window = window
        self._open: dict[int, tuple[StreamEvent, TextScreen]] = {}
        """By part: its last delta, and its text."""
        self._arguments: dict[int, list[str]] = {}
        self._held = 0
        self._changed: set[int] = set()

    def event(self, event: StreamEvent) -> Sequence[StreamEvent] | Refuse:
        """What goes on in place of ``event``."""
        try:
            return self._event(event)
        except DeniedError as error:
            return Refuse(f"it matches {error.rule!r}")

    def _event(self, event: StreamEvent) -> Sequence[StreamEvent] | Refuse:
        if isinstance(event, _TEXTS):
            return self._text(event)
        if isinstance(event, ArgumentsDelta) and self._arguments_screen is not None:
            return self._keep(event)
        if isinstance(event, PartStopped):
            return [*self._rest(event.index), *self._call(event.index), event]
        if isinstance(event, Signed):
            rest = self._rest(event.index)
            # What was changed is no longer what its maker has signed.
            return rest if event.index in self._changed else [*rest, event]
        return (event,)

    def _text(self, event: TextDelta | RefusalDelta | ReasoningDelta) -> Sequence[StreamEvent]:
        if self._texts_screen is None:
            return (event,)
        before: list[StreamEvent] = []
        last, screen = self._open.get(event.index, (None, None))
        if last is not None and _section(last) != _section(event):
            before, screen = self._rest(event.index), None
        if screen is None:
            screen = TextScreen(self._texts_screen, self._window)
        self._open[event.index] = event, screen
        return before + self._said(event, screen, screen.feed(event.text))

    def _rest(self, index: int) -> list[StreamEvent]:
        """What is left of the text of a part."""
        last, screen = self._open.pop(index, (None, None))
        if last is None or screen is None:
            return []
        return self._said(last, screen, screen.end())

    def _said(self, like: StreamEvent, screen: TextScreen, text: str) -> list[StreamEvent]:
        index = getattr(like, "index", 0)
        if screen.changed:
            self._changed.add(index)
        if not text:
            return []
        if isinstance(like, ReasoningDelta):
            return [ReasoningDelta(index, text, like.summary, like.section)]
        # Without the probabilities of tokens, which are cut otherwise and spell the text out.
        return [
            RefusalDelta(index, text) if isinstance(like, RefusalDelta) else TextDelta(index, text)
        ]

    def _keep(self, event: ArgumentsDelta) -> Sequence[StreamEvent] | Refuse:
        self._held += len(event.text)
        if self._held > MAX_ARGUMENTS:
            return Refuse("the arguments of its tool calls are too long to be judged")
        self._arguments.setdefault(event.index, []).append(event.text)
        return ()

    def _call(self, index: int) -> list[StreamEvent]:
        pieces = self._arguments.pop(index, None)
        if pieces is None or self._arguments_screen is None:
            return []
        whole = "".join(pieces)
        self._held -= len(whole)
        return [ArgumentsDelta(index, screened_json(whole, self._arguments_screen))]


def _section(event: StreamEvent) -> tuple[object, ...]:
    if isinstance(event, ReasoningDelta):
        return ReasoningDelta, event.summary, event.section
    return (type(event),)
