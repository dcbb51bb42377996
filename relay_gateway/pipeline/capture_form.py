"""Forms as they pass: their fields are kept, of their files only size and digest."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Final

import msgspec

from relay_gateway.pipeline.capture_types import Kind, kind_of

MAX_HEADERS: Final = 16 * 1024
"""Bytes of headers that a part may have; of what follows longer ones nothing is kept."""
MAX_PARTS: Final = 1024

_END_OF_HEADERS: Final = b"\r\n\r\n"
_NAME: Final = re.compile(rb';[ \t]*name="?([^";\r\n]*)', re.IGNORECASE)
_FILE: Final = re.compile(rb";[ \t]*filename\*?=", re.IGNORECASE)
_TYPE: Final = re.compile(rb"\r\ncontent-type:[ \t]*([^\r\n]*)", re.IGNORECASE)


class FormPiece(msgspec.Struct):
    """Part of a form: the content of the field called ``field``, or what is between contents."""

    field: str | None
    kind: Kind
    content: bytearray


class FormReader:
    """Cuts a form into pieces, however it is fed. ``size`` is how much of it is kept so far, which
    is never more than ``limit``; ``cut`` says that there was more."""

    def __init__(self, boundary: bytes, limit: int) -> None:
        self.pieces: list[FormPiece] = []
        self.size = 0
        self.cut = False
        self._mark = b"\r\n--" + boundary
        self._limit = limit
        self._buffer = b"\r\n"
        self._step: Callable[[], bool] = self._preamble
        self._parts = 0
        self._skip = 0
        self._file_bytes = 0
        self._file_digest = hashlib.sha256()
        self._in_file = False

    def feed(self, data: bytes) -> None:
        """Takes a piece of the form."""
        self._buffer += data
        while self._step():
            pass

    def finish(self) -> None:
        """That was all of it."""
        if self._step == self._content:
            self._take(self._buffer)
            self._end_part()
        elif self._step == self._headers:
            self.cut = self.cut or bool(self._buffer)

    def _frame(self, data: bytes) -> None:
        """Keeps something from between the contents."""
        if not self.pieces or self.pieces[-1].field is not None:
            self.pieces.append(FormPiece(None, Kind.TEXT, bytearray()))
        self._extend(data)

    def _preamble(self) -> bool:
        place = self._buffer.find(self._mark)
        if place < 0:
            self._buffer = self._buffer[-len(self._mark) :]
            return False
        self._begin_part(place)
        return True

    def _begin_part(self, place: int) -> None:
        """Goes on behind the boundary at ``place``."""
        first = not self._parts
        self._buffer = self._buffer[place + len(self._mark) :]
        self._parts += 1
        self._frame(self._mark[2:] if first else self._mark)
        self._step = self._headers if self._parts <= MAX_PARTS else self._rest

    def _headers(self) -> bool:
        if self._buffer.startswith(b"--"):
            self._frame(b"--\r\n")
            self._step = self._epilogue
            return True
        end = self._buffer.find(_END_OF_HEADERS)
        if end < 0:
            if len(self._buffer) > MAX_HEADERS:
                self._step = self._rest
                return True
            return False
        # The end of the blank line may be what a boundary begins with.
        head, self._buffer = self._buffer[: end + 4], self._buffer[end + 2 :]
        self._enter(head)
        return True

    def _enter(self, head: bytes) -> None:
        self._frame(head)
        found = _NAME.search(head)
        name = found[1].decode("utf-8", "replace") if found is not None else ""
        media = _TYPE.search(head)
        kind = kind_of(media[1].decode("latin-1")) if media is not None else Kind.TEXT
        unnamed_file = media is None and _FILE.search(head) is not None
        self._in_file = unnamed_file or kind in (Kind.OPAQUE, Kind.FORM)
        self._file_bytes, self._file_digest = 0, hashlib.sha256()
        kept_as = Kind.JSON if kind is Kind.JSON else Kind.TEXT
        self.pieces.append(FormPiece(name, kept_as, bytearray()))
        self._skip = 2
        self._step = self._content

    def _content(self) -> bool:
        place = self._buffer.find(self._mark)
        if place < 0:
            held = len(self._mark) - 1
            if len(self._buffer) > held:
                self._take(self._buffer[:-held])
                self._buffer = self._buffer[-held:]
            return False
        self._take(self._buffer[:place])
        self._end_part()
        self._begin_part(place)
        return True

    def _take(self, data: bytes) -> None:
        data, self._skip = data[self._skip :], max(0, self._skip - len(data))
        if self._in_file:
            self._file_bytes += len(data)
            self._file_digest.update(data)
        elif data:
            self._extend(data)

    def _extend(self, data: bytes) -> None:
        room = self._limit - self.size
        if len(data) > room:
            data, self.cut = data[:room], True
        self.pieces[-1].content += data
        self.size += len(data)

    def _end_part(self) -> None:
        if self._in_file:
            digest = self._file_digest.hexdigest()
            self._extend(f"[file of {self._file_bytes} bytes, sha256 {digest}]".encode())

    def _epilogue(self) -> bool:
        self._buffer = b""
        return False

    def _rest(self) -> bool:
        self.cut = True
        self._buffer = b""
        return False
