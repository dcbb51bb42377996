"""Strict decoding of a chunked request body (RFC 9112 §7.1), which knows where the body ends.

The parser cannot say at which byte a message ended, and what follows belongs to the next request.
"""

from __future__ import annotations

import re
from enum import Enum, auto
from typing import Final

from relay_gateway.http.wire_rules import malformed

# Fifteen digits: a size that is larger overflows in somebody's integer.
_SIZE_LINE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[\t -~\x80-\xff]*)?")
# Framing does not belong there (RFC 9110 §6.5.1), and some readers heed or refuse it.
_TRAILER_LINE = re.compile(
    rb"(?!(?i:content-length|transfer-encoding):)[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[\t -~\x80-\xff]*"
)
_LINE_BYTES: Final = 1024
_TRAILER_BYTES: Final = 8 * 1024


class _Expect(Enum):
    SIZE = auto()
    DATA = auto()
    DATA_END = auto()
    TRAILER = auto()


class ChunkedDecoder:
    """Decodes one body fed in arbitrary pieces; chunk extensions and trailers are dropped.

    ``complete`` turns true with the last byte of the body.
    """

    __slots__ = ("_carry", "_expect", "_left", "_trailer", "complete")

    def __init__(self) -> None:
        self.complete = False
        self._carry = b""
        self._expect = _Expect.SIZE
        self._left = 0
        self._trailer = 0

    def feed(self, data: bytes) -> tuple[list[bytes], bytes]:
        """The pieces of content in ``data``, and what follows the end of the body.

        Raises :class:`RequestRefusedError` 400 at the first byte that does not belong there.
        """
        if self._carry:
            data = self._carry + data
            self._carry = b""
        pieces: list[bytes] = []
        position = 0
        while position < len(data) and not self.complete:
            if self._expect is _Expect.DATA:
                position = self._take_data(data, position, pieces)
            elif self._expect is _Expect.DATA_END:
                position = self._take_data_end(data, position)
            else:
                position = self._take_line(data, position)
        return pieces, data[position:]

    def _take_data(self, data: bytes, position: int, pieces: list[bytes]) -> int:
        piece = data[position : position + self._left]
        pieces.append(piece)
        self._left -= len(piece)
        if self._left == 0:
            self._expect = _Expect.DATA_END
        return position + len(piece)

    def _take_data_end(self, data: bytes, position: int) -> int:
        end = data[position : position + 2]
        if not b"\r\n".startswith(end):
            raise malformed("A chunk of the body does not end where its size says.")
        if len(end) < 2:
            self._carry = end
            return len(data)
        self._expect = _Expect.SIZE
        return position + 2

    def _take_line(self, data: bytes, position: int) -> int:
        feed = data.find(b"\n", position, position + _LINE_BYTES)
        if feed < 0:
            if len(data) - position >= _LINE_BYTES:
                raise malformed(f"A line of the chunked body is longer than {_LINE_BYTES} bytes.")
            self._carry = data[position:]
            return len(data)
        if data[feed - 1 : feed] != b"\r" or feed == position:
            raise malformed("A line of the chunked body does not end with CRLF.")
        line = data[position : feed - 1]
        if self._expect is _Expect.SIZE:
            self._start_chunk(line)
        else:
            self._take_trailer(line)
        return feed + 1

    def _start_chunk(self, line: bytes) -> None:
        match = _SIZE_LINE.fullmatch(line)
        if match is None:
            raise malformed("A chunk size of the body is not a hexadecimal number.")
        self._left = int(match[1], 16)
        self._expect = _Expect.DATA if self._left else _Expect.TRAILER

    def _take_trailer(self, line: bytes) -> None:
        if not line:
            self.complete = True
            return
        self._trailer += len(line)
        if self._trailer > _TRAILER_BYTES or _TRAILER_LINE.fullmatch(line) is None:
            raise malformed("The trailer of the chunked body is too long or not made of fields.")
