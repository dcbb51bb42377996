"""Server-sent events (WHATWG HTML §9.2): cuts a stream into events and reads them."""

from __future__ import annotations

import re

MAX_EVENT_BYTES = 16 * 1024 * 1024

_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r)")
_BOM = b"\xef\xbb\xbf"
_LF = 10
_CR = 13
"""A number is looked for in bytes ten times as fast as bytes of length one: those are first tried
as a number, which raises an exception."""


class EventSplitter:
    """Cuts a stream into events, wherever the chunks are cut.

    The concatenation of everything :meth:`feed` returned and :meth:`rest` equals the input. Lines
    end with LF, CRLF or CR, also mixed; an event is given out as soon as the line end that
    completes it is there, so the LF of a CRLF may come as the first byte of the next event.
    """

    __slots__ = ("_at_line_start", "_limit", "_pieces", "_size", "_skip_lf", "overflowed")

    def __init__(self, *, limit: int = MAX_EVENT_BYTES) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self._at_line_start = True
        self._skip_lf = False
        self.overflowed = False
        """Whether an event grew past the limit; from then on everything is passed through uncut."""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The events that ``chunk`` completes, each with the blank line that ends it."""
        if self.overflowed or not chunk:
            return [chunk] if chunk else []
        if self._is_one_event(chunk):
            return [chunk]
        if self._skip_lf or _CR in chunk:
            ends = self._ends_by_line(chunk)
        else:
            ends = self._ends_by_lf(chunk)
        events = self._cut(chunk, ends)
        if self._size > self._limit:
            self.overflowed = True
            events.append(self.rest())
            self._pieces.clear()
        return events

    def only(self, chunk: bytes) -> tuple[bytes, bytes] | None:
        """Name and data of ``chunk`` where it is exactly one plain event, as most reads of a live
        stream are; nothing needs to be fed then. ``None`` where it has to be."""
        if self._pieces or self._skip_lf or self.overflowed or not self._at_line_start:
            return None
        return _plain(chunk) if chunk.endswith(b"\n\n") else None

    def rest(self) -> bytes:
        """The bytes of the event that has not ended yet."""
        return b"".join(self._pieces)

    def _is_one_event(self, chunk: bytes) -> bool:
        """Whether ``chunk`` is exactly one event, as most reads of a live stream are."""
        return (
            self._at_line_start
            and not self._pieces
            and not self._skip_lf
            and chunk.find(b"\n\n") == len(chunk) - 2 > 0
            and chunk[0] != _LF
            and _CR not in chunk
        )

    def _cut(self, chunk: bytes, ends: list[int]) -> list[bytes]:
        events: list[bytes] = []
        start = 0
        for end in ends:
            event = chunk[start:end]
            if self._pieces:
                self._pieces.append(event)
                event = b"".join(self._pieces)
                self._pieces.clear()
                self._size = 0
            events.append(event)
            start = end
        if start < len(chunk):
            self._pieces.append(chunk[start:])
            self._size += len(chunk) - start
        return events

    def _ends_by_lf(self, chunk: bytes) -> list[int]:
        """Where events end in a chunk without CR; what nearly every stream consists of."""
        ends: list[int] = []
        start, size = 0, len(chunk)
        if self._at_line_start and chunk[0] == _LF:
            start = 1
            ends.append(start)
        while start < size:
            # A blank line right after a blank line is an event of its own.
            end = start + 1 if ends and chunk[start] == _LF else chunk.find(b"\n\n", start) + 2
            if end == 1:
                break
            ends.append(end)
            start = end
        self._at_line_start = chunk[-1] == _LF
        return ends

    def _ends_by_line(self, chunk: bytes) -> list[int]:
        """Where events end in a chunk with any mix of line ends."""
        ends = []
        position = 1 if self._skip_lf and chunk[0] == _LF else 0
        at_line_start = self._at_line_start
        while (line := _LINE.match(chunk, position)) is not None:
            blank = at_line_start and chunk[position] in (_LF, _CR)
            position = line.end()
            at_line_start = True
            if blank:
                ends.append(position)
        self._at_line_start = at_line_start and position == len(chunk)
        self._skip_lf = chunk[-1] == _CR
        return ends


def parse_event(raw: bytes) -> tuple[bytes, bytes]:
    """Name and data of one raw event; several ``data`` lines are joined by LF.

    Both are empty for an event of comments only. A byte order mark before the first field is
    skipped.
    """
    plain = _plain(raw)
    if plain is not None:
        return plain
    name = b""
    data: list[bytes] = []
    for line in raw.removeprefix(_BOM).splitlines():
        field, _, value = line.partition(b":")
        if field == b"data":
            data.append(value.removeprefix(b" "))
        elif field == b"event":
            name = value.removeprefix(b" ")
    return name, b"\n".join(data)


def _plain(raw: bytes) -> tuple[bytes, bytes] | None:
    """Name and data of an event, its blank line included, that is one line of data, perhaps after
    one with its name; nearly all are."""
    if raw.startswith(b"data: "):
        if raw.find(b"\n") == len(raw) - 2 and _CR not in raw:
            return b"", raw[6:-2]
    elif raw.startswith(b"event: "):
        end = raw.find(b"\n")
        plain = raw.startswith(b"\ndata: ", end) and raw.find(b"\n", end + 7) == len(raw) - 2
        if plain and _CR not in raw:
            return raw[7:end], raw[end + 7 : -2]
    return None
