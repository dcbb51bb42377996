"""Text as this provider counts and cuts it: one word is one token."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PIECE = re.compile(r"\s*\S+")


def count_words(texts: Iterable[str]) -> int:
    """How many tokens ``texts`` are."""
    return sum(len(text.split()) for text in texts)


def pieces_of(text: str) -> tuple[str, ...]:
    """``text`` in pieces of one word each that join to exactly ``text``."""
    pieces = _PIECE.findall(text)
    rest = text[sum(map(len, pieces)) :]
    if not rest:
        return tuple(pieces)
    return (*pieces[:-1], pieces[-1] + rest) if pieces else (rest,)
