"""Records as lines of JSON and back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import BinaryIO

import msgspec

from relay_gateway.plugin import UsageRecord

BEGINNING = b'{"requestId":"'
"""What every line begins with: the fields are in the order of :class:`UsageRecord`."""
PIECE = 256 * 1024
"""Bytes that are read at a time."""
LONGEST_LINE = 4 * 1024 * 1024
"""Bytes without a newline that are taken for damage; records are far shorter."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Stamp(msgspec.Struct, rename="camel", gc=False):
    """What is known of a record before the rest of its line is looked at."""

    request_id: str
    started_at: str


_encoder = msgspec.json.Encoder()
_record_decoder = msgspec.json.Decoder(UsageRecord)
_stamp_decoder = msgspec.json.Decoder(Stamp)


def lines_of(records: Iterable[UsageRecord]) -> bytes:
    """One line per record, each with its newline."""
    return _encoder.encode_lines(records)


def record_of(line: bytes) -> UsageRecord:
    """The record as it was written. Raises :class:`ValueError` for a damaged line."""
    return _record_decoder.decode(line)


def stamp_of(line: bytes) -> Stamp:
    """Id and time of a line. Raises :class:`ValueError` for a damaged one."""
    return _stamp_decoder.decode(line)


def stamps_of(piece: bytes) -> Sequence[Stamp]:
    """Id and time of all whole lines in ``piece`` that are not damaged."""
    try:
        return _stamp_decoder.decode_lines(piece)
    except ValueError:
        return list(_readable_stamps(piece))


def _readable_stamps(piece: bytes) -> Iterator[Stamp]:
    for line in piece.split(b"\n"):
        try:
            yield stamp_of(line)
        except ValueError:
            continue


def whole_lines(file: BinaryIO, size: int | None = None) -> Iterator[bytes]:
    """Pieces of ``file`` that consist of whole lines, up to ``size`` bytes of it.

    What follows the last newline is left out.
    """
    rest = b""
    left = size
    while piece := file.read(PIECE if left is None else min(left, PIECE)):
        if left is not None:
            left -= len(piece)
        end = piece.rfind(b"\n") + 1
        if end:
            yield rest + piece[:end]
        rest = piece[end:] if end else rest + piece
        if len(rest) > LONGEST_LINE:
            rest = rest[-1:]  # not nothing: what follows must stay a damaged line


def microseconds(time: str) -> int:
    """Microseconds since 1970 of an RFC 3339 time. Raises :class:`ValueError`."""
    try:
        moment = datetime.fromisoformat(time)
    except ValueError as error:
        raise ValueError(f"{time!r} is not an RFC 3339 time") from error
    if moment.tzinfo is None:
        raise ValueError(f"{time!r} is not an RFC 3339 time: it has no offset; append Z for UTC")
    return (moment - _EPOCH) // _MICROSECOND
