"""Redaction by value: finds the credentials that this process holds in a text, whole or in part.

A credential is known here for as long as somebody holds it. It is found by its first and its last
characters, so a part that was cut off is found, too; what stands before them is compared on from
there, so that nothing of it is left.
"""

from __future__ import annotations

import html
import json
import re
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol
from urllib.parse import quote

FRAGMENT: Final = 8
"""So many characters at either end of a credential are not shown either."""
SHORTEST: Final = 8
"""A shorter value would be found in ordinary texts all the time."""
_ENTROPY: Final = 2 * FRAGMENT
"""With fewer characters a value may be a word, whose beginning other words share."""
_PUBLIC: Final = re.compile(r"[A-Za-z0-9_-]{0,15}[_-]")
_MANY: Final = 64
_MASKED: Final = re.compile(r"(?:[*•…]|\.\.|\\u202[26]|[xX]{4})(?:[*•….xX]|\\u202[26])*")
"""What others put in the middle of a credential; in JSON it may be escaped."""
_SHOWN: Final = 4
_WINDOW: Final = 32

Span = tuple[int, int]


class Revealing(Protocol):
    """What holds a credential: a :class:`.Secret`."""

    def reveal(self) -> str:
        """The credential."""


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """One way in which a credential is written. Its first ``public`` characters tell nothing."""

    text: str
    public: int

    @property
    def marks(self) -> tuple[str, ...]:
        """Short texts one of which is in every text that shows the credential."""
        if len(self.text) - self.public < _ENTROPY:
            return (self.text[:FRAGMENT],)
        return self.text[self.public : self.public + FRAGMENT], self.text[-FRAGMENT:]

    def spans(self, text: str, mark: str) -> Iterator[Span]:
        """Where ``text`` shows the credential at an occurrence of ``mark``."""
        start = text.find(mark)
        while start >= 0:
            span = self._whole(text, start) if len(self.marks) == 1 else self._around(text, start)
            yield from span
            start = text.find(mark, max(start + 1, *(end for _, end in span), 0))

    def _whole(self, text: str, start: int) -> tuple[Span, ...]:
        if text.startswith(self.text, start):
            return ((start, start + len(self.text)),)
        return ()

    def _around(self, text: str, start: int) -> tuple[Span, ...]:
        """As much as is shown of the credential where a mark of it begins in ``text``."""
        head = text.startswith(self.marks[0], start)
        here = self.public if head else len(self.text) - FRAGMENT
        before = text[max(0, start - here) : start]
        back = _alike(before[::-1], self.text[:here][::-1])
        rest = self.text[here:]
        forth = _alike(text[start : start + len(rest)], rest)
        return ((start - back, start + forth),)


def forms_of(value: str) -> list[Form]:
    """How ``value`` may be written in a text: as it is, in JSON, in a URL, in HTML."""
    found = _PUBLIC.match(value)
    public = value[: found.end()] if found is not None else ""
    written: dict[str, int] = {}
    for write in (_as_it_is, _in_json, _in_url, html.escape):
        written.setdefault(write(value), len(write(public)))
    return [Form(text, length) for text, length in written.items()]


def scrub_value(text: str, value: str, mask: str) -> str:
    """``text`` without ``value``, however short it is, without its first and last characters, and
    without what others show of it around asterisks or dots (``sk-ab…wxyz``)."""
    if not value:
        return text
    forms = forms_of(value)
    whole = [span for form in forms for span in _whole(text, form.text)]
    parts = _spans(text, ((mark, form) for form in forms for mark in form.marks))
    return replaced(text, [*whole, *parts, *_masked_spans(text, value)], mask)


def replaced(text: str, spans: Iterable[Span], mask: str) -> str:
    """``text`` with ``mask`` in place of each of ``spans``, or of several that overlap or touch."""
    pieces: list[str] = []
    done = 0
    covered = -1
    for start, end in sorted(spans):
        if start > covered:
            pieces += (text[done:start], mask)
        covered = max(covered, end)
        done = covered
    return "".join((*pieces, text[done:])) if pieces else text


class LiveValues:
    """The credentials that are alive in this process. Threads may use it at the same time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._marks: dict[str, tuple[Form, ...]] = {}
        self._held: dict[int, tuple[weakref.ref[Revealing], list[Form]]] = {}
        self._gone: deque[tuple[int, weakref.ref[Revealing]]] = deque()

    def __len__(self) -> int:
        with self._lock:
            self._bury()
            return len(self._held)

    def add(self, secret: Revealing) -> None:
        """Hides the value of ``secret`` for as long as somebody holds ``secret``; one that is
        shorter than :data:`SHORTEST` is not hidden."""
        value = secret.reveal()
        if len(value) < SHORTEST:
            return
        number = id(secret)
        with self._lock:
            self._bury()
            if number in self._held:
                return
            # Whoever lets go of a secret may hold the lock: only a note is taken there.
            reference = weakref.ref(secret, lambda dead: self._gone.append((number, dead)))
            forms = forms_of(value)
            self._held[number] = (reference, forms)
            for form in forms:
                for mark in form.marks:
                    self._marks[mark] = (*self._marks.get(mark, ()), form)

    def scrub(self, text: str, mask: str) -> str:
        """``text`` with ``mask`` in place of every credential, or what is shown of it."""
        found = self.spans(text)
        return replaced(text, found, mask) if found else text

    def spans(self, text: str) -> list[Span]:
        """Where ``text`` shows a credential, or part of one; in no order."""
        marks = self._marks
        found = _marks_in(text, marks) if marks else ()
        return _spans(text, found) if found else []

    def _bury(self) -> None:
        while self._gone:
            number, reference = self._gone.popleft()
            held = self._held.get(number)
            if held is None or held[0] is not reference:
                continue
            del self._held[number]
            for form in held[1]:
                for mark in form.marks:
                    left = tuple(one for one in self._marks.get(mark, ()) if one is not form)
                    if left:
                        self._marks[mark] = left
                    else:
                        self._marks.pop(mark, None)


LIVE: Final = LiveValues()
"""Those of this process: logs are the process's, and so is what they must not show."""


def _marks_in(text: str, marks: dict[str, tuple[Form, ...]]) -> list[tuple[str, Form]]:
    if len(marks) <= _MANY:
        present = {mark for mark in list(marks) if mark in text}
    else:
        last = len(text) - FRAGMENT + 1
        present = {mark for at in range(last) if (mark := text[at : at + FRAGMENT]) in marks}
    return [(mark, form) for mark in present for form in marks.get(mark, ())]


def _spans(text: str, found: Iterable[tuple[str, Form]]) -> list[Span]:
    return [span for mark, form in found for span in form.spans(text, mark)]


def _whole(text: str, part: str) -> Iterator[Span]:
    start = text.find(part)
    while start >= 0:
        yield start, start + len(part)
        start = text.find(part, start + len(part))


def _masked_spans(text: str, value: str) -> Iterator[Span]:
    if len(value) < _ENTROPY:
        return
    head, tail = value[:_WINDOW], value[-_WINDOW:]
    for found in _MASKED.finditer(text):
        start, end = found.span()
        shown = text[max(0, start - _WINDOW) : start], text[end : end + _WINDOW]
        before, after = _ending(shown[0], head), _beginning(shown[1], tail)
        if before or after:
            yield start - before, end + after


def _ending(text: str, head: str) -> int:
    """How many of the first characters of a credential stand at the end of ``text``."""
    if text[-_SHOWN:] not in head:
        return 0
    lengths = range(min(len(text), len(head)), _SHOWN - 1, -1)
    return next((length for length in lengths if text.endswith(head[:length])), 0)


def _beginning(text: str, tail: str) -> int:
    """How many of its last characters stand at the beginning of ``text``."""
    if text[:_SHOWN] not in tail:
        return 0
    lengths = range(min(len(text), len(tail)), _SHOWN - 1, -1)
    return next((length for length in lengths if text.startswith(tail[-length:])), 0)


def _alike(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _as_it_is(value: str) -> str:
    return value


def _in_json(value: str) -> str:
    return json.dumps(value)[1:-1]


def _in_url(value: str) -> str:
    return quote(value, safe="")
