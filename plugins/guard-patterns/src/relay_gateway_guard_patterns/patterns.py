"""Patterns of RE2, which take time in proportion to the text, whatever the pattern and the text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

MAX_PROGRAM: Final = 8 * 1024 * 1024
"""Bytes that a compiled pattern may take."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class Pattern:
    """A compiled pattern."""

    __slots__ = ("_compiled",)

    def __init__(self, source: str) -> None:
        import re2  # only a gateway with patterns has to load it

        options = re2.Options()
        options.log_errors = False
        options.max_mem = MAX_PROGRAM
        try:
            self._compiled = re2.compile(source, options)
        except (re2.error, UnicodeEncodeError) as error:
            raise ValueError("is no pattern that RE2 accepts") from error

    def spans(self, text: str, start: int = 0) -> Iterator[tuple[int, int]]:
        """Where ``text`` matches from ``start`` on, from left to right; what is before ``start``
        only says what precedes."""
        for match in self._compiled.finditer(text, start):
            yield match.span()


@lru_cache(maxsize=256)
def compiled(source: str) -> Pattern:
    """The pattern for use. Raises :class:`ValueError`."""
    return Pattern(source)


def check_pattern(source: str) -> str:
    """``source``, if it is a pattern. Raises :class:`ValueError`."""
    if any(compiled(source).spans("")):
        raise ValueError("matches where there is nothing")
    return source


def readable(text: str) -> str:
    """``text`` as RE2 can read it: halves of surrogate pairs, which JSON can bring, replaced; of
    the same length."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)
