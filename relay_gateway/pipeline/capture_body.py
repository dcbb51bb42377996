"""Copies of bodies as they pass, to be kept: cut at a size, decoded, counted and hashed.

What is no text is not kept, only counted and hashed. All copies of a process share one room; where
that is full a payload is given up, and its request goes on without.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Final

import msgspec

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.content_decoder import (
    ContentDecoder,
    UndecodableError,
    decoder_for,
    is_encoded,
)
from relay_gateway.pipeline.capture_form import FormPiece, FormReader
from relay_gateway.pipeline.capture_types import Kind, kind_of
from relay_gateway.pipeline.form import boundary_of

OVERLAP: Final = 4096
"""So much more is held than will be kept, so that what is hidden is found where it is cut."""
MAX_DECODED: Final = 256 * 1024 * 1024
_SLICE: Final = 64 * 1024


class Room:
    """Bytes that all payloads of a process may hold together until they are handed over."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0

    def take(self, size: int) -> bool:
        """Whether there was room for ``size`` more bytes, which are then taken."""
        if self.taken + size > self.limit:
            return False
        self.taken += size
        return True

    def give_back(self, size: int) -> None:
        """Ends the use of ``size`` bytes."""
        self.taken -= size


class Holding:
    """What one payload has of the room. Once there was none for it, it is ``lost`` whole."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._taken = 0
        self._copies: list[BodyCopy] = []
        self.lost = False

    def add(self, copy: BodyCopy) -> None:
        """Has ``copy`` let go of its content when the payload is lost."""
        self._copies.append(copy)

    def take(self, size: int) -> bool:
        """Takes ``size`` bytes for the payload; without room, gives up all of it."""
        if self.lost:
            return False
        if self._room.take(size):
            self._taken += size
            return True
        self.lose()
        return False

    def lose(self) -> None:
        """Gives up the payload."""
        self.lost = True
        for copy in self._copies:
            copy.forget()
        self.release()

    def release(self) -> None:
        """Gives the room back."""
        self._room.give_back(self._taken)
        self._taken = 0


class TakenBody(msgspec.Struct, frozen=True):
    """A body as it was copied, up to a little more than what is kept of it.

    ``size`` is the true one, as on the wire; ``sha256`` is there where the body is not kept as it
    was. A form is in ``pieces``, everything else in ``content``.
    """

    kind: Kind = Kind.OPAQUE
    content_type: str = ""
    size: int = 0
    content: bytes = b""
    pieces: Sequence[FormPiece] = ()
    truncated: bool = False
    sha256: str | None = None


class BodyCopy:
    """Copies one body; ``keep`` is how many bytes of it are wanted."""

    def __init__(
        self, content_type: bytes | None, encoding: bytes | None, keep: int, holding: Holding
    ) -> None:
        self._type = (content_type or b"").decode("latin-1")
        self._kind = kind_of(self._type)
        self._keep = keep
        self._holding = holding
        self._size = 0
        self._digest = hashlib.sha256()
        self._content = bytearray()
        self._cut = self._damaged = False
        self._decoder = self._make_decoder(encoding)
        self._form = self._make_form(content_type)
        holding.add(self)

    def _make_decoder(self, encoding: bytes | None) -> ContentDecoder | None:
        if not is_encoded(encoding):
            return None
        decoder = decoder_for(encoding, MAX_DECODED)
        if decoder is None:
            self._kind = Kind.OPAQUE
        return decoder

    def _make_form(self, content_type: bytes | None) -> FormReader | None:
        if self._kind is not Kind.FORM:
            return None
        try:
            boundary = boundary_of(content_type)
        except RequestRefusedError:  # whoever reads it will say so, if anybody does
            boundary = None
        if boundary is None:
            self._kind = Kind.OPAQUE
            return None
        return FormReader(boundary, self._keep + OVERLAP)

    def feed(self, data: bytes) -> None:
        """Copies a piece that has passed."""
        self._size += len(data)
        if self._holding.lost:
            return
        self._digest.update(data)
        if self._kind is Kind.OPAQUE:
            return
        if self._decoder is None:
            self._hold(data)
        else:
            self._decode(self._decoder, data)

    def forget(self) -> None:
        """Lets go of what was copied."""
        self._content = bytearray()
        self._form = None

    def finish(self, *, complete: bool, expected: int | None = None) -> TakenBody:
        """What came of it, once. Of one that is not ``complete`` the rest has not been seen, and
        ``expected`` is its announced length."""
        size = self._size if complete or expected is None else max(self._size, expected)
        kind, content = self._kind, bytes(self._content)
        pieces: tuple[FormPiece, ...] = ()
        if self._form is not None:
            self._form.finish()
            pieces = tuple(self._form.pieces)
            self._cut = self._cut or self._form.cut
        opaque = kind is Kind.OPAQUE or (self._damaged and not content) or b"\0" in content
        if opaque:
            kind, content, pieces = Kind.OPAQUE, b"", ()
        self.forget()
        changed = opaque or kind is Kind.FORM or self._damaged
        return TakenBody(
            kind,
            self._type,
            size,
            content,
            pieces,
            truncated=self._cut or self._damaged or not complete,
            sha256=self._digest.hexdigest() if changed and self._size and complete else None,
        )

    def _decode(self, decoder: ContentDecoder, data: bytes) -> None:
        for start in range(0, len(data), _SLICE):
            if self._cut or self._damaged:
                return  # no more of it is wanted
            try:
                self._hold(decoder.feed(data[start : start + _SLICE]))
            except UndecodableError:
                self._damaged = True

    def _hold(self, data: bytes) -> None:
        if self._form is not None:
            before = self._form.size
            self._form.feed(data)
            self._holding.take(self._form.size - before)
            return
        have = len(self._content)
        piece = data[: self._keep + OVERLAP - have]
        self._cut = self._cut or have + len(data) > self._keep
        if piece and self._holding.take(len(piece)):
            self._content += piece
