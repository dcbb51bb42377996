"""A whole answer, before it goes out."""

from __future__ import annotations

from typing import NamedTuple


class Reply(NamedTuple):
    """``headers`` is a block of encoded lines without those that frame the body."""

    status: int
    headers: bytes
    body: bytes
