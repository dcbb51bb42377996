"""Identifiers: UUIDv7 for everything the gateway names, slugs for what people type."""

from __future__ import annotations

import os
import random
import re
import socket
import time
import unicodedata
from uuid import UUID

_random = random.SystemRandom()
# Ids must be unique, not secret: a seeded generator is 20 times faster than the system's.
_generator = random.Random(_random.getrandbits(256))  # noqa: S311
_bits = _generator.getrandbits
_last_millisecond = 0
_last_sequence = 0
_beginning = ""
"""The part of an id that the millisecond decides, as text."""


def _seed() -> None:
    _generator.seed(_random.getrandbits(256))


# A forked process would otherwise go on with the same numbers, and so with the same ids.
os.register_at_fork(after_in_child=_seed)

SLUG_PATTERN = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
"""A DNS-1123 label: at most 63 of a-z, 0-9 and '-', beginning and ending with a letter or digit."""


def new_id(nanoseconds: int | None = None) -> str:
    """A UUIDv7 (RFC 9562 §5.7) in its usual text form, of now: ``nanoseconds`` since the epoch if
    the clock has just been read.

    Ids of one process increase strictly, also when the clock stands still or steps back: the 12
    bits of ``rand_a`` count within a millisecond and borrow from the next one when they run out.
    """
    global _last_sequence
    millisecond = (time.time_ns() if nanoseconds is None else nanoseconds) // 1_000_000
    if millisecond > _last_millisecond:
        _enter(millisecond, _bits(8))
    else:
        _last_sequence += 1
        if _last_sequence > 0xFFF:
            _enter(_last_millisecond + 1, 0)
    rest = f"{0x8000_0000_0000_0000 | _bits(62):016x}"
    return f"{_beginning}{_last_sequence:03x}-{rest[:4]}-{rest[4:]}"


def _enter(millisecond: int, sequence: int) -> None:
    global _last_millisecond, _last_sequence, _beginning
    _last_millisecond, _last_sequence = millisecond, sequence
    text = f"{millisecond:012x}"
    _beginning = f"{text[:8]}-{text[8:]}-7"


def instance_name() -> str:
    """What usage records call this process: the machine's name and the process's number."""
    return f"{socket.gethostname()}:{os.getpid()}"


def is_id(text: str) -> bool:
    """Whether ``text`` has the form of a UUID (any version), and so is looked up as an id first."""
    if len(text) != 36:
        return False
    try:
        UUID(text)
    except ValueError:
        return False
    return True


def slugify(text: str) -> str:
    """The DNS-1123 label that ``text`` suggests; ``"entity"`` where nothing usable is left of
    it."""
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^a-z0-9]+", "-", ascii_text.lower()).strip("-")[:63].strip("-")
    return slug or "entity"


def is_slug(text: str) -> bool:
    """Whether ``text`` is acceptable as a slug given by a client."""
    return SLUG_PATTERN.fullmatch(text) is not None
