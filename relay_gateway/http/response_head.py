"""The fixed parts of answers as bytes: status lines, and a Date field made once per second."""

from __future__ import annotations

import http
import time
from email.utils import formatdate
from functools import lru_cache
from typing import Final

CLOSE: Final = b"Connection: close\r\n"
KEEP_ALIVE: Final = b"Connection: keep-alive\r\n"


@lru_cache(maxsize=128)
def status_line(status: int) -> bytes:
    """The status line of ``status`` with its CRLF; an unregistered one has an empty phrase."""
    try:
        phrase = http.HTTPStatus(status).phrase
    except ValueError:
        phrase = ""
    return f"HTTP/1.1 {status} {phrase}\r\n".encode("ascii")


def has_body(status: int) -> bool:
    """Whether an answer with this final status has a body (RFC 9112 §6.3)."""
    return status not in (204, 304)


class DateLine:
    """The Date field line of the present second (RFC 9110 §6.6.1)."""

    __slots__ = ("_line", "_second")

    def __init__(self) -> None:
        self._second = -1
        self._line = b""

    def __call__(self) -> bytes:
        second = int(time.time())
        if second != self._second:
            self._second = second
            self._line = f"Date: {formatdate(second, usegmt=True)}\r\n".encode("ascii")
        return self._line
