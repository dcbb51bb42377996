"""Frames: how the spool keeps what it is given apart, and finds its way after damage.

A frame is a marker, a checksum, a kind, the length of the body, the number of the record and the
body. Checksums begin with the salt of their segment, so that no body can pass for a frame: nobody
outside knows the salt.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import NamedTuple
from zlib import crc32

MARKER = b"\xf5\xc1RG"
HEADER = struct.Struct("<4sIBIQ")
HEADER_BYTES = HEADER.size
CHECKSUM_AT = 4
_pack_into = HEADER.pack_into
_pack_checksum_into = struct.Struct("<I").pack_into


class FrameKind(IntEnum):
    """What a body is: a record, the announcement of one, or where the records that follow go."""

    RECORD = 1
    OPENED = 2
    ROUTE = 3


class Frame(NamedTuple):
    """One frame; ``number`` is that of a record, of a route the highest that was given before."""

    kind: int
    number: int
    body: bytes


class Scan(NamedTuple):
    """What is in a piece of a segment.

    ``end`` is where to go on, relative to the piece: behind the last whole frame, or further where
    there can be none in between. ``damaged`` counts stretches that are no frames, ``broken`` tells
    whether the piece ended in one.
    """

    frames: list[Frame]
    end: int
    damaged: int
    broken: bool
    whole: int
    """Where the last whole frame ends."""


def frame_of(kind: FrameKind, number: int, body: bytes, salt: int) -> bytes:
    """The bytes of a frame."""
    header = HEADER.pack(MARKER, 0, kind, len(body), number)
    checksum = crc32(body, crc32(header, salt))
    return HEADER.pack(MARKER, checksum, kind, len(body), number) + body


def seal(buffer: bytearray, kind: int, number: int, salt: int) -> None:
    """Makes a frame of a buffer that has a body from ``HEADER_BYTES`` on; ``kind`` as a number,
    because this is done for every request."""
    _pack_into(buffer, 0, MARKER, 0, kind, len(buffer) - HEADER_BYTES, number)
    _pack_checksum_into(buffer, CHECKSUM_AT, crc32(buffer, salt))


def needed(data: bytes) -> int:
    """How long the frame at the beginning of ``data`` says that it is; 0 where there is none."""
    if len(data) < HEADER.size or not data.startswith(MARKER):
        return 0
    return HEADER.size + int(HEADER.unpack_from(data)[3])


def scan(data: bytes, salt: int, left: int, *, broken: bool = False) -> Scan:
    """Reads the frames of a piece of a segment. ``left`` is how many bytes the segment has from the
    beginning of the piece on; ``broken`` says that the piece before ended in damage."""
    frames: list[Frame] = []
    at, damaged, whole = 0, 0, 0
    while at < len(data):
        length = _length_at(data, at, left)
        if length > len(data) - at:
            break  # more of it is in the segment
        if length and (frame := _frame_at(data, at, length, salt)) is not None:
            frames.append(frame)
            at, broken = at + length, False
            whole = at
            continue
        damaged, broken = damaged + (not broken), True
        found = data.find(MARKER, at + 1)
        at = found if found >= 0 else max(at + 1, len(data) - len(MARKER) + 1)
        if found < 0 and len(data) == left:
            at = len(data)
    return Scan(frames, at, damaged, broken, whole)


def _length_at(data: bytes, at: int, left: int) -> int:
    """The length of what may be a frame, 0 where there can be none."""
    if not data.startswith(MARKER[: len(data) - at], at):
        return 0
    if len(data) - at < HEADER.size:
        return HEADER.size if left - at >= HEADER.size else 0
    length = HEADER.size + int(HEADER.unpack_from(data, at)[3])
    return length if length <= left - at else 0


def _frame_at(data: bytes, at: int, length: int, salt: int) -> Frame | None:
    _, checksum, kind, _, number = HEADER.unpack_from(data, at)
    body = data[at + HEADER.size : at + length]
    header = HEADER.pack(MARKER, 0, kind, len(body), number)
    if crc32(body, crc32(header, salt)) != checksum:
        return None
    return Frame(kind, number, body)
