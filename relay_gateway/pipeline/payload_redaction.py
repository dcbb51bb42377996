"""Taking out of payloads what must not be stored: what pointers lead to, what patterns match, and
every credential that is known.

Bodies stay as they are but for that, byte for byte. In JSON only the inside of strings changes, or
whole values become strings, so what was JSON stays JSON; the same goes for the data of streams. A
text that a stream brings in pieces is looked at as a whole, too.
"""

from __future__ import annotations

import re
import time
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from relay_gateway.catalog.payload_rules import Pointer, RedactionRules, Span, descend
from relay_gateway.errors import RelayError
from relay_gateway.pipeline.capture_body import TakenBody
from relay_gateway.pipeline.capture_form import FormPiece
from relay_gateway.pipeline.capture_json import NO_CHANNEL, Channels, JsonTexts, Leaf, read_json
from relay_gateway.pipeline.capture_types import Kind
from relay_gateway.redaction import LIVE, SHORTEST, LiveValues, scrub_value
from relay_gateway.secret import Secret

MASK: Final = "[redacted]"
SECONDS: Final = 5.0
"""How long one payload may take: searching is linear, but matches may be many and long."""

_QUOTED: Final = f'"{MASK}"'
_RELAY_KEY: Final = re.compile(r"sk-relay-[0-9A-Za-z]{20,49}")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_LINE: Final = re.compile(r"([^\r\n]*+)(\r\n|\r|\n|\Z)")
_REMEMBERED: Final = 256


class RedactionError(RelayError):
    """A payload could not be redacted, and must not be stored."""


class Redacted(msgspec.Struct, frozen=True):
    """A body without what had to be taken out. ``cut`` says that more of it than that is missing
    at its end."""

    content: bytes
    cut: bool = False


class _Edit(msgspec.Struct, frozen=True):
    start: int
    end: int
    text: str


class Hidden:
    """What must not be shown: what ``rules`` name, every credential that lives in this process, and
    the ``credentials`` that a caller presented."""

    def __init__(self, rules: RedactionRules, credentials: Iterable[Secret] = ()) -> None:
        self.rules = rules
        self.credentials = [one for one in credentials if len(one.reveal()) >= SHORTEST]
        presented = LiveValues()
        for credential in self.credentials:
            presented.add(credential)
        self.holders = (LIVE, presented)


class Finder:
    """Finds what is ``hidden`` in texts, for at most :data:`SECONDS` in all."""

    def __init__(self, hidden: Hidden) -> None:
        self._hidden = hidden
        self._until = time.monotonic() + SECONDS
        self._known: dict[str, list[Span]] = {}

    def spans(self, text: str) -> list[Span]:
        """Where; in no order. Raises :class:`RedactionError`."""
        known = self._known.get(text)
        if known is None:
            known = list(self._find(text))
            if len(text) <= _REMEMBERED:
                self._known[text] = known
        return known

    def scrubbed(self, text: str) -> str:
        """``text`` without known credentials, as they are written in any kind of text."""
        for holder in self._hidden.holders:
            text = holder.scrub(text, MASK)
        for credential in self._hidden.credentials:
            text = scrub_value(text, credential.reveal(), MASK)
        return _RELAY_KEY.sub(MASK, text)

    def check_time(self) -> None:
        """Raises :class:`RedactionError` when it has taken too long."""
        if time.monotonic() > self._until:
            raise RedactionError(f"redaction took longer than {SECONDS:g} s")

    def _find(self, text: str) -> Iterator[Span]:
        self.check_time()
        for holder in self._hidden.holders:
            yield from holder.spans(text)
        if "sk-relay-" in text:
            yield from (match.span() for match in _RELAY_KEY.finditer(text))
        if self._hidden.rules.patterns:
            readable = text if text.isascii() else _SURROGATE.sub("\ufffd", text)
            for pattern in self._hidden.rules.patterns:
                for start, end in pattern.spans(readable):
                    self.check_time()
                    if end > start:
                        yield start, end


def redact(body: TakenBody, keep: int, hidden: Hidden) -> Redacted:
    """``body`` without what is ``hidden``, and no more than its first ``keep`` bytes. Raises
    :class:`RedactionError`."""
    finder, rules = Finder(hidden), hidden.rules
    if body.kind is Kind.FORM:
        return _redact_form(body.pieces, keep, rules.pointers, finder)
    text = body.content.decode("utf-8", "surrogateescape")
    cut = _characters(body.content, keep)
    # Without rules only credentials are looked for, which JSON writes as any text does.
    plain = not rules and body.kind is Kind.JSON and "\\u" not in text
    read_as = Kind.TEXT if plain else body.kind
    redacted, shortened = _Editor(text, finder).edited(read_as, cut, rules)
    return Redacted(_encoded(_scrubbed(redacted, body.kind, finder)), shortened)


def redact_text(text: str, hidden: Hidden) -> str:
    """A plain ``text`` the same way; pointers do not apply."""
    finder = Finder(hidden)
    redacted, _ = _Editor(text, finder).edited(Kind.TEXT, len(text), hidden.rules)
    return finder.scrubbed(redacted)


def _scrubbed(text: str, kind: Kind, finder: Finder) -> str:
    """``text`` without credentials that only show when it is read as plain text."""
    scrubbed = finder.scrubbed(text)
    if scrubbed != text and kind is Kind.JSON and _is_json(text) and not _is_json(scrubbed):
        raise RedactionError("a credential could not be taken out without breaking the JSON")
    return scrubbed


def _is_json(text: str) -> bool:
    return read_json(text, 0, len(text)).broken_at is None


def _characters(content: bytes, keep: int) -> int:
    """How many characters the first ``keep`` bytes are, without a part of one at their end."""
    while 0 < keep < len(content) and content[keep] & 0xC0 == 0x80:
        keep -= 1
    return len(content[:keep].decode("utf-8", "surrogateescape"))


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


class _Block(msgspec.Struct):
    """Part of a text that was read for itself. ``lines`` is where each line of ``source`` begins in
    it and in the text, for data of several lines."""

    source: str
    lines: Sequence[tuple[int, int]] = ()

    def place(self, at: int) -> int:
        """Where in the text the place ``at`` of the source is."""
        if not self.lines:
            return at
        begin, there = self.lines[bisect_right(self.lines, at, key=_begin) - 1]
        return there + at - begin


def _begin(line: tuple[int, int]) -> int:
    return line[0]


class _Place(msgspec.Struct):
    """A leaf, what it is part of, and what of it is to be taken out; ``masked`` parts leave a mask
    behind, others continue one that has one."""

    block: _Block
    leaf: Leaf
    spans: list[tuple[int, int, bool]] = msgspec.field(default_factory=list)


class _Editor:
    """Redacts one text."""

    def __init__(self, text: str, finder: Finder) -> None:
        self._text = text
        self._finder = finder
        self._whole = _Block(text)
        self._places: list[_Place] = []
        self._edits: list[_Edit] = []
        self._channels = Channels()

    def edited(self, kind: Kind, cut: int, rules: RedactionRules) -> tuple[str, bool]:
        """The text up to the place ``cut``, and whether it had to be cut before that."""
        shortened = False
        if kind is Kind.EVENTS:
            self._read_events(rules.pointers)
        elif kind is Kind.JSON:
            broken_at = self._read(self._whole, 0, len(self._text), rules.pointers, None)
            if broken_at is not None and broken_at < cut:
                cut, shortened = broken_at, True
        else:
            self._plain(0, len(self._text), NO_CHANNEL)
        self._find()
        return _applied(self._text, self._edits, cut), shortened

    def _read_events(self, pointers: Sequence[Pointer]) -> None:
        data: list[Span] = []
        for match in _LINE.finditer(self._text):
            start, end = match.span(1)
            if self._text.startswith("data:", start):
                value = start + 5
                data.append((value + self._text.startswith(" ", value, end), end))
            elif start < end:
                self._plain(start, end, NO_CHANNEL)
            else:
                self._read_data(data, pointers)
                data = []
        self._read_data(data, pointers)

    def _read_data(self, data: Sequence[Span], pointers: Sequence[Pointer]) -> None:
        if not data:
            return
        self._finder.check_time()
        if len(data) == 1:
            block, start, end = self._whole, *data[0]
        else:
            source = "\n".join(self._text[begin:stop] for begin, stop in data)
            lines, at = [], 0
            for begin, stop in data:
                lines.append((at, begin))
                at += stop - begin + 1
            block, start, end = _Block(source, lines), 0, len(source)
        broken_at = self._read(block, start, end, pointers, self._channels)
        if broken_at is not None:
            self._edits.append(_Edit(block.place(broken_at), block.place(end), ""))

    def _read(
        self,
        block: _Block,
        start: int,
        end: int,
        pointers: Sequence[Pointer],
        channels: Channels | None,
    ) -> int | None:
        """Reads JSON, or what may be none. Where it breaks off while there are pointers, nobody can
        say what they lead to: answers the place from which on nothing may be kept."""
        found = read_json(block.source, start, end, pointers, channels)
        if found.broken_at is not None and (not pointers or _is_empty(found)):
            channel = NO_CHANNEL if channels is None else channels.number("plain")
            for begin, stop in _lines_of(block, start, end):
                self._plain(begin, stop, channel)
            return None
        self._places += [_Place(block, leaf) for leaf in found.leaves]
        self._edits += [
            _Edit(block.place(begin), block.place(stop), _QUOTED) for begin, stop in found.hidden
        ]
        return found.broken_at

    def _plain(self, start: int, end: int, channel: int) -> None:
        leaf = Leaf(start, end, self._text[start:end], channel)
        self._places.append(_Place(self._whole, leaf))

    def _find(self) -> None:
        continued: dict[int, list[_Place]] = {}
        for place in self._places:
            place.spans = [(start, end, True) for start, end in self._finder.spans(place.leaf.text)]
            if place.leaf.channel != NO_CHANNEL:
                continued.setdefault(place.leaf.channel, []).append(place)
        for places in continued.values():
            if len(places) > 1:
                self._find_across(places)
        for place in self._places:
            if place.spans:
                self._edits += _edits_of(place)

    def _find_across(self, places: Sequence[_Place]) -> None:
        """Finds what is spread over the texts of ``places``, which continue one another."""
        joined = "".join(place.leaf.text for place in places)
        begins, at = [], 0
        for place in places:
            begins.append(at)
            at += len(place.leaf.text)
        for start, end in self._finder.spans(joined):
            number = bisect_right(begins, start) - 1
            masked = True
            while number < len(places) and begins[number] < end:
                place, begin = places[number], begins[number]
                inside = max(start - begin, 0), min(end - begin, len(place.leaf.text))
                if inside[0] < inside[1]:
                    place.spans.append((*inside, masked))
                    masked = False
                number += 1


def _is_empty(found: JsonTexts) -> bool:
    return not found.leaves and not found.hidden


def _lines_of(block: _Block, start: int, end: int) -> Iterable[Span]:
    """The parts of the text that the source between two places is made of."""
    if not block.lines:
        return [(start, end)]
    ends = [begin - 1 for begin, _ in block.lines[1:]] + [end]
    return [
        (there, there + stop - begin)
        for (begin, there), stop in zip(block.lines, ends, strict=True)
    ]


def _edits_of(place: _Place) -> Iterator[_Edit]:
    leaf, block = place.leaf, place.block
    if leaf.bare:
        yield _Edit(block.place(leaf.start), block.place(leaf.end), _QUOTED)
        return
    for start, end, masked in _merged(place.spans):
        begin, stop = leaf.place(block.source, (start, end))
        yield _Edit(block.place(begin), block.place(stop), MASK if masked else "")


def _merged(spans: Iterable[tuple[int, int, bool]]) -> Iterator[tuple[int, int, bool]]:
    """Spans that overlap made into one, which is masked if one of them is."""
    current: tuple[int, int, bool] | None = None
    for start, end, masked in sorted(spans):
        if current is not None and start <= current[1]:
            current = current[0], max(current[1], end), current[2] or masked
            continue
        if current is not None:
            yield current
        current = start, end, masked
    if current is not None:
        yield current


def _applied(text: str, edits: Iterable[_Edit], cut: int) -> str:
    pieces: list[str] = []
    done = 0
    for edit in sorted(edits, key=lambda one: (one.start, one.end)):
        if edit.start >= cut:
            break
        if edit.start >= done:
            pieces += (text[done : edit.start], edit.text)
        done = max(done, edit.end)
    if done < cut:
        pieces.append(text[done:cut])
    return "".join(pieces)


def _redact_form(
    pieces: Sequence[FormPiece], keep: int, pointers: Sequence[Pointer], finder: Finder
) -> Redacted:
    """Pointers begin with the name of a field."""
    content = bytearray()
    cut = False
    for piece in pieces:
        if len(content) >= keep:
            break
        raw = bytes(piece.content)
        inner = descend(pointers, piece.field, element=False) if piece.field is not None else ()
        if () in inner:
            content += MASK.encode()
            continue
        left = keep - len(content)
        text = raw.decode("utf-8", "surrogateescape")
        rules = RedactionRules(pointers=inner)
        edited, shortened = _Editor(text, finder).edited(piece.kind, _characters(raw, left), rules)
        content += _encoded(_scrubbed(edited, piece.kind, finder))
        cut = cut or shortened or len(raw) > left
    return Redacted(bytes(content), cut)
