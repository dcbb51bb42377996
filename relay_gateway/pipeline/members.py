"""Members of a JSON object, found by name in a body of any size without reading it piece by piece.

A name can be spelled with escapes, stand anywhere as a value or further down, and stand twice. A
search finds all its spellings; which of them are members at the top level is for the JSON decoder
to say: each spelling is replaced by a mark, and the decoder is asked for the marks. That takes a
few passes in C, where walking through the tokens of a hostile body took half a minute.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Final

import msgspec

_MARKS: Final = 64
_SEARCHED_BYTES: Final = 64 * 1024 * 1024
_COLON = re.compile(rb"[ \t\r\n]*:[ \t\r\n]*")

# A character of a private plane, drawn anew by each process: nobody can write a mark of his own.
_SIGN: Final = chr(0x10_0000 + secrets.randbelow(0xFFFE))
_NAMES: Final = [f"{_SIGN}{number}" for number in range(_MARKS)]
_ABSENT: Final = msgspec.Raw(b"")
_Marked = msgspec.defstruct(
    "_Marked",
    [(f"m{number}", msgspec.Raw, _ABSENT) for number in range(_MARKS)],
    rename={f"m{number}": name for number, name in enumerate(_NAMES)},
)
_decode: Final = msgspec.json.Decoder(_Marked).decode


class TooManyError(ValueError):
    """A name stands in the body so often that looking at each place would take too long."""


class Member(msgspec.Struct, frozen=True):
    """A member at the top level of a JSON object; ``start`` and ``end`` bound its value."""

    name: str
    start: int
    end: int


def find_members(data: bytes, name: str, *, any_case: bool = False) -> list[Member]:
    """The members called ``name`` of the JSON object ``data``, in order, however they are spelled;
    ``any_case`` those as well whose name differs in case only.

    ``data`` must be valid. Raises :class:`TooManyError`.
    """
    most = _MARKS * max(1, _SEARCHED_BYTES // len(data))
    matches = spelling_of(name, any_case=any_case).finditer(data)
    places = [match.span() for match in islice(matches, most + 1)]
    if len(places) > most:
        raise TooManyError(f"the body has {name!r} in more than {most} places")
    found: list[Member] = []
    for first in range(0, len(places), _MARKS):
        group = places[first : first + _MARKS]
        found += [_member(data, place) for place in _at_the_top(data, group)]
    return found


@lru_cache(maxsize=16)
def spelling_of(name: str, *, any_case: bool) -> re.Pattern[bytes]:
    """What matches every spelling of an ASCII ``name`` as a JSON string, quotes included."""
    return re.compile(b'"%b"' % b"".join(_letter(letter, any_case=any_case) for letter in name))


def _letter(letter: str, *, any_case: bool) -> bytes:
    cases = {letter.lower(), letter.upper()} if any_case else {letter}
    ways = [re.escape(case.encode("ascii")) for case in sorted(cases)]
    ways += [rb"\\u(?i:%04x)" % ord(case) for case in sorted(cases)]
    return b"(?:%b)" % b"|".join(ways)


def _at_the_top(data: bytes, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    marked = _decode(_with_marks(data, places))
    values: list[Any] = [getattr(marked, f"m{number}") for number in range(len(places))]
    return [place for place, value in zip(places, values, strict=True) if value is not _ABSENT]


def _with_marks(data: bytes, places: Sequence[tuple[int, int]]) -> bytes:
    pieces: list[bytes] = []
    done = 0
    for mark, (start, end) in zip(_NAMES, places, strict=False):
        pieces += [data[done:start], b'"%b"' % mark.encode()]
        done = end
    return b"".join((*pieces, data[done:]))


def _member(data: bytes, place: tuple[int, int]) -> Member:
    start, end = place
    # With no other place marked, the decoder's bounds of the value are those in the body.
    value: msgspec.Raw = _decode(_with_marks(data, [place])).m0  # type: ignore[attr-defined]
    colon = _COLON.match(data, end)
    at = colon.end() if colon is not None else end
    name: str = msgspec.json.decode(data[start:end], type=str)
    return Member(name, at, at + len(memoryview(value)))
