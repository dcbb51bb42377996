"""Finding the texts in JSON, and what pointers lead to, without changing or rebuilding it.

Works on JSON that was cut off, which no parser takes, and on several documents one after the other.
Positions are those of the text, so that all of it but what is hidden stays as it was.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate
from typing import Final

import msgspec

from relay_gateway.catalog.payload_rules import Pointer, Span, descend

_TOKEN: Final = re.compile(r'[ \t\r\n]*+([{}\[\],:"]|[^ \t\r\n{}\[\],:"]++)')
_STRING: Final = re.compile(r'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_BARE: Final = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|null")
_CUT: Final = re.compile(r"[-+.0-9eE]*|t(?:ru?)?|f(?:al?s?)?|n(?:ul?)?")
"""What may be left of a number or a word at the end of a text."""
_ESCAPE: Final = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)", re.DOTALL
)
_LONGEST_ESCAPE: Final = 6
_MARK: Final = 64
_CLOSES: Final = {"}": "{", "]": "["}
NO_CHANNEL: Final = -1
MAX_DEPTH: Final = 512
"""Deeper JSON counts as broken where it becomes so deep."""
_VALUE, _FIRST_ELEMENT, _NAME, _FIRST_NAME, _COLON, _COMMA = range(6)


class Leaf(msgspec.Struct, frozen=True):
    """A text in a document: of a string, which ``start`` and ``end`` are inside of, of a member's
    name, or of a number or a word (``bare``). Those of several documents that have the same
    ``channel`` may continue one another; :data:`NO_CHANNEL` continues nothing."""

    start: int
    end: int
    text: str
    channel: int = NO_CHANNEL
    bare: bool = False

    def place(self, source: str, span: Span) -> Span:
        """Where ``span`` of the decoded text is in ``source``."""
        if self.bare:
            return self.start, self.end
        if self.end - self.start == len(self.text):
            return self.start + span[0], self.start + span[1]
        escapes = list(_ESCAPE.finditer(source, self.start, self.end))
        longer = list(accumulate((len(one[0]) - 1 for one in escapes), initial=0))
        # An escape's place in the decoded text is nearer by what those before it are longer.
        at = [one.start() - self.start - more for one, more in zip(escapes, longer, strict=False)]
        start, end = (place + longer[bisect_left(at, place)] for place in span)
        return self.start + start, self.start + end


class Channels:
    """Numbers for the places that texts have in documents of one stream."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}

    def number(self, *place: object) -> int:
        """The number of a place, the same each time."""
        return self._numbers.setdefault(place, len(self._numbers))


class _Frame(msgspec.Struct):
    """An object or array that is open, or was. ``marks`` are its members that tell which of several
    things it is about, ``told`` the number of all that is told so far down."""

    opened: str
    parent: _Frame | None
    path: int
    pointers: tuple[Pointer, ...]
    name: str = ""
    count: int = -1
    hidden_from: int | None = None
    """Where it begins, if all of it is hidden."""
    marks: list[str] = msgspec.field(default_factory=list)
    told: int | None = None


class JsonTexts(msgspec.Struct):
    """What is in a document: ``leaves``, and the places that pointers lead to. ``broken_at`` is
    where it stops being JSON; what follows was not looked at."""

    leaves: list[Leaf] = msgspec.field(default_factory=list)
    hidden: list[Span] = msgspec.field(default_factory=list)
    broken_at: int | None = None


def read_json(
    source: str,
    start: int,
    end: int,
    pointers: Iterable[Pointer] = (),
    channels: Channels | None = None,
) -> JsonTexts:
    """Reads the documents in ``source`` between two places. A pointer is followed into a document,
    and where that is an array into each of its elements, too. With ``channels`` the documents are
    part of a stream."""
    reader = _Reader(source, start, end, tuple(pointers), channels)
    reader.run()
    return reader.found


def _decoded(raw: str, *, whole: bool) -> str | None:
    """What the inside of a JSON string says; ``None`` for what is none. One that is not ``whole``
    may be cut off in an escape."""
    if "\\" not in raw:
        return raw
    for cut in range(1 if whole else _LONGEST_ESCAPE + 1):
        try:
            text: str = json.loads(f'"{raw[: len(raw) - cut]}"', strict=False)
        except ValueError:
            continue
        return text
    return None


class _Reader:
    """Reads from token to token, with a stack of its own."""

    def __init__(
        self,
        source: str,
        start: int,
        end: int,
        pointers: tuple[Pointer, ...],
        channels: Channels | None,
    ) -> None:
        self.found = JsonTexts()
        self._source = source
        self._place = start
        self._end = end
        self._roots = pointers
        self._stack: list[_Frame] = []
        self._channels = channels
        self._waiting: list[tuple[Leaf, _Frame | None, str]] = []
        """Leaves of the document that is being read, and where they are."""
        self._expects = _VALUE

    def run(self) -> None:
        source, end = self._source, self._end
        while (match := _TOKEN.match(source, self._place, end)) is not None:
            sign, begin = match[1], match.start(1)
            self._place = match.end()
            if not self._take(sign, begin):
                self.found.broken_at = begin
                break
        for frame in self._stack:
            if frame.hidden_from is not None and frame.hidden_from >= 0:
                self.found.hidden.append((frame.hidden_from, end))
        self._settle()

    def _take(self, sign: str, begin: int) -> bool:
        """Whether ``sign`` may stand where it is."""
        expects = self._expects
        if sign == '"':
            return self._string(begin)
        if sign in "]}":
            return self._close(sign)
        if sign in ",:":
            return self._separate(sign)
        if expects not in (_VALUE, _FIRST_ELEMENT):
            return not self._stack and expects == _COMMA and self._next_document(sign, begin)
        if sign in "{[":
            return self._open(sign, begin)
        return self._bare(sign, begin)

    def _separate(self, sign: str) -> bool:
        wanted = _COMMA if sign == "," else _COLON
        allowed = self._expects == wanted and bool(self._stack)
        self._expects = _NAME if sign == "," and self._in_object() else _VALUE
        return allowed

    def _next_document(self, sign: str, begin: int) -> bool:
        self._settle()
        self._expects = _VALUE
        return self._take(sign, begin)

    def _in_object(self) -> bool:
        return bool(self._stack) and self._stack[-1].opened == "{"

    def _enter(self) -> tuple[str, tuple[Pointer, ...]]:
        """Name of the value that begins, and the pointers that go on into it."""
        if not self._stack:
            return "", self._roots
        frame = self._stack[-1]
        if frame.opened == "{":
            name = frame.name
            return name, descend(frame.pointers, name, element=False) if frame.pointers else ()
        frame.count += 1
        name = str(frame.count)
        pointers = descend(frame.pointers, name, element=True) if frame.pointers else ()
        if len(self._stack) == 1:
            pointers += self._roots
        return name, pointers

    def _hides(self) -> bool:
        return bool(self._stack) and self._stack[-1].hidden_from is not None

    def _open(self, sign: str, begin: int) -> bool:
        if len(self._stack) >= MAX_DEPTH:
            return False
        concealed = self._hides()
        name, pointers = self._enter()
        parent = self._stack[-1] if self._stack else None
        path = 0
        if self._channels is not None and parent is not None:
            path = self._channels.number("in", parent.path, name)
        frame = _Frame(sign, parent, path, pointers)
        if concealed:
            frame.hidden_from = -1  # inside of one that is
        elif () in pointers:
            frame.hidden_from = begin
        self._stack.append(frame)
        self._expects = _FIRST_NAME if sign == "{" else _FIRST_ELEMENT
        return True

    def _close(self, sign: str) -> bool:
        allowed = self._expects in (_COMMA, _FIRST_NAME, _FIRST_ELEMENT)
        if not allowed or not self._stack or self._stack[-1].opened != _CLOSES[sign]:
            return False
        frame = self._stack.pop()
        if frame.hidden_from is not None and frame.hidden_from >= 0:
            self.found.hidden.append((frame.hidden_from, self._place))
        self._expects = _COMMA
        return True

    def _string(self, begin: int) -> bool:
        match = _STRING.match(self._source, begin + 1, self._end)
        stop = match.end() if match is not None else begin + 1
        closed = stop < self._end and self._source[stop] == '"'
        if not closed:
            stop = self._end
        self._place = min(stop + 1, self._end)
        expects = self._expects
        text = _decoded(self._source[begin + 1 : stop], whole=closed)
        if text is None:
            return False
        leaf = Leaf(begin + 1, stop, text)
        if expects in (_NAME, _FIRST_NAME):
            self._stack[-1].name = text
            self._expects = _COLON
            if not self._hides():
                self.found.leaves.append(leaf)
            return True
        if expects not in (_VALUE, _FIRST_ELEMENT):
            if self._stack or expects != _COMMA:
                return False
            self._settle()
        self._value(begin, leaf)
        return True

    def _bare(self, sign: str, begin: int) -> bool:
        stop = self._place
        if _BARE.fullmatch(sign) is None and not (
            stop == self._end and _CUT.fullmatch(sign) is not None
        ):
            return False
        self._value(begin, Leaf(begin, stop, sign, bare=True))
        return True

    def _value(self, begin: int, leaf: Leaf) -> None:
        name, pointers = self._enter()
        self._expects = _COMMA
        if self._hides():
            return
        if () in pointers:
            self.found.hidden.append((begin, self._place))
            return
        frame = self._stack[-1] if self._stack else None
        if self._channels is None or leaf.bare:
            self.found.leaves.append(leaf)
        else:
            self._waiting.append((leaf, frame, name))
        if frame is not None and (name == "type" or name.endswith("index")):
            frame.marks.append(leaf.text[:_MARK])

    def _settle(self) -> None:
        """Gives the leaves of a document that has ended their channels: where they are, and what
        says which of several things there they are about."""
        channels = self._channels
        if channels is None:
            return
        for leaf, frame, name in self._waiting:
            path = frame.path if frame is not None else 0
            channel = channels.number("text", path, name, _told(channels, frame))
            self.found.leaves.append(Leaf(leaf.start, leaf.end, leaf.text, channel))
        self._waiting = []


def _told(channels: Channels, frame: _Frame | None) -> int:
    open_frames = []
    while frame is not None and frame.told is None:
        open_frames.append(frame)
        frame = frame.parent
    told = frame.told if frame is not None and frame.told is not None else 0
    for one in reversed(open_frames):
        if one.marks:
            told = channels.number("told", told, *one.marks)
        one.told = told
    return told
