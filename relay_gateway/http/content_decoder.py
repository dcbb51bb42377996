"""Decoding of content encodings, piece by piece and within caps, to look at a copy of what passes.

Brotli and Zstandard are read where the packages ``brotli`` (1.2 or later) and ``zstandard`` are
installed. Of what is decoded here only errors are ever shown to anybody.
"""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, Protocol

from relay_gateway.errors import RelayError

MAX_RATIO: Final = 100
"""How many bytes one byte may become. Text of models shrinks to a tenth; bombs to a thousandth."""
FREE_BYTES: Final = 1024 * 1024
"""Up to this size the ratio does not matter: short repetitive texts shrink further."""

_GZIP_OR_ZLIB: Final = 47
_RAW_DEFLATE: Final = -15
_HEADER_BYTES: Final = 2
_ZSTANDARD_WINDOW: Final = 8 * 1024 * 1024
"""What a decoder must be able to hold at most (RFC 9659)."""
_SLICE: Final = 256
"""Zstandard has no bound of its own for what a piece becomes; this much becomes 8 MiB at most."""


class UndecodableError(RelayError):
    """The content is not what its encoding says, or becomes larger than it may."""


class Inflater(Protocol):
    """Decodes one encoding."""

    def inflate(self, data: bytes, room: int) -> bytes:
        """What ``data`` becomes. May stop when that is longer than ``room`` bytes."""


class ContentDecoder:
    """Decodes one body of at most ``limit`` bytes, fed in arbitrary pieces."""

    __slots__ = ("_given", "_inflater", "_limit", "_taken")

    def __init__(self, inflater: Inflater, limit: int) -> None:
        self._inflater = inflater
        self._limit = limit
        self._taken = self._given = 0

    def feed(self, data: bytes) -> bytes:
        """What ``data`` becomes. Raises :class:`UndecodableError`."""
        self._taken += len(data)
        most = min(self._limit, max(FREE_BYTES, MAX_RATIO * self._taken))
        try:
            decoded = self._inflater.inflate(data, most - self._given)
        except Exception as error:  # each library has its own
            raise UndecodableError("the content is not what its encoding says") from error
        self._given += len(decoded)
        if self._given > most:
            raise UndecodableError(f"the content becomes more than {most} bytes when decoded")
        return decoded


def decoder_for(encoding: bytes | None, limit: int) -> ContentDecoder | None:
    """What decodes a body with this ``Content-Encoding``; ``None`` for one that is not known here,
    or is several at once."""
    make = _inflaters().get((encoding or b"").strip().lower())
    return None if make is None else ContentDecoder(make(), limit)


def is_encoded(encoding: bytes | None) -> bool:
    """Whether a body with this ``Content-Encoding`` is anything but itself."""
    return encoding is not None and encoding.strip().lower() not in (b"", b"identity")


class _Zlib:
    """gzip, also several members one after the other, and deflate, with its wrapper or without."""

    def __init__(self) -> None:
        self._inflate: Any = None
        self._held = b""

    def inflate(self, data: bytes, room: int) -> bytes:
        pieces: list[bytes] = []
        while data and room >= 0:
            if self._inflate is None:
                data = self._held = self._held + data
                if len(data) < _HEADER_BYTES:
                    break
                self._held = b""
                self._inflate = zlib.decompressobj(_window_bits(data))
            piece = self._inflate.decompress(data, room + 1)
            room -= len(piece)
            pieces.append(piece)
            data = self._inflate.unconsumed_tail
            if self._inflate.eof:
                data, self._inflate = self._inflate.unused_data, None
        return b"".join(pieces)


def _window_bits(data: bytes) -> int:
    """What to tell the library of content that begins like ``data``: some senders take deflate for
    the bare format (RFC 9110 §8.4.1.2 notes it)."""
    wrapped = data[0] & 0x0F == 8 and int.from_bytes(data[:2]) % 31 == 0
    return _GZIP_OR_ZLIB if wrapped or data.startswith(b"\x1f\x8b") else _RAW_DEFLATE


class _Brotli:
    def __init__(self, library: Any) -> None:
        self._decompressor = library.Decompressor()

    def inflate(self, data: bytes, room: int) -> bytes:
        pieces: list[bytes] = []
        while room >= 0:
            piece = self._decompressor.process(data, output_buffer_limit=max(room, 1))
            room -= len(piece)
            pieces.append(piece)
            data = b""
            if self._decompressor.can_accept_more_data():
                break
        return b"".join(pieces)


class _Zstandard:
    def __init__(self, library: Any) -> None:
        window = library.ZstdDecompressor(max_window_size=_ZSTANDARD_WINDOW)
        self._decompressor = window.decompressobj(read_across_frames=True)

    def inflate(self, data: bytes, room: int) -> bytes:
        pieces: list[bytes] = []
        for start in range(0, len(data), _SLICE):
            piece = self._decompressor.decompress(data[start : start + _SLICE])
            room -= len(piece)
            pieces.append(piece)
            if room < 0:
                break
        return b"".join(pieces)


@lru_cache(maxsize=1)
def _inflaters() -> Mapping[bytes, Callable[[], Inflater]]:
    """What makes an inflater, by encoding."""
    made: dict[bytes, Callable[[], Inflater]] = dict.fromkeys(
        (b"gzip", b"x-gzip", b"deflate"), _Zlib
    )
    brotli = _installed("brotli")
    if brotli is not None and hasattr(brotli.Decompressor, "can_accept_more_data"):
        made[b"br"] = lambda: _Brotli(brotli)
    zstandard = _installed("zstandard")
    if zstandard is not None:
        made[b"zstd"] = lambda: _Zstandard(zstandard)
    return made


def _installed(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        return None
