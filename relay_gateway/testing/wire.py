"""A raw caller for wire tests: sends exactly what it is given, and reads answers one by one."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from io import BytesIO
from types import TracebackType
from typing import IO, Self

from relay_gateway.http.message import Headers

_TIMEOUT_SECONDS = 10.0
_MOST_ANSWERS = 10_000


@dataclass(frozen=True, slots=True)
class WireAnswer:
    """One answer as read off the wire; ``complete`` is false when the stream ended inside it."""

    status: int
    headers: Headers
    body: bytes
    complete: bool

    @property
    def closes(self) -> bool:
        """Whether it says that the connection ends with it."""
        return (self.headers.get(b"connection") or b"").lower() == b"close"


class WireCaller:
    """A blocking connection to a loopback port; use as a context manager.

    Every operation fails with ``TimeoutError`` after ten seconds, so that no test can hang.
    """

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_SECONDS)
        self._stream: IO[bytes] = self.socket.makefile("rb")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection as a program does that wants no more of it."""
        self._stream.close()
        self.socket.close()

    def send(self, data: bytes) -> Self:
        """Sends all of ``data``."""
        self.socket.sendall(data)
        return self

    def stop_sending(self) -> Self:
        """Closes the sending side only."""
        self.socket.shutdown(socket.SHUT_WR)
        return self

    def is_closed(self) -> bool:
        """Whether the next thing to read is the end of the stream (or a reset)."""
        try:
            return self._stream.read(1) == b""
        except ConnectionResetError:
            return True

    def read(self, size: int) -> bytes:
        """Exactly ``size`` bytes as they are on the wire, fewer at the end of the stream."""
        return self._stream.read(size)

    def read_line(self) -> bytes:
        """One line as it is on the wire, with its end."""
        return self._stream.readline()

    def read_answer(self, *, head_only: bool = False) -> WireAnswer:
        """The next answer; ``head_only`` for the answer to a HEAD request.

        Raises ``EOFError`` where the stream ends before an answer begins.
        """
        return AnswerReader(self._stream).read(head_only=head_only)


class AnswerReader:
    """Reads answers one by one from ``stream``."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def read(self, *, head_only: bool = False) -> WireAnswer:
        """The next answer, as :meth:`WireCaller.read_answer` has it."""
        status_line = self._stream.readline()
        if not status_line:
            raise EOFError("the connection was closed without an answer")
        status = int(status_line.split(b" ")[1])
        headers = Headers(self._read_fields())
        if head_only or status < 200 or status in (204, 304):
            return WireAnswer(status, headers, b"", complete=True)
        body, complete = self._read_body(headers)
        return WireAnswer(status, headers, body, complete)

    def _read_fields(self) -> list[tuple[bytes, bytes]]:
        fields = []
        for _ in range(1000):
            name, colon, value = self._stream.readline().partition(b":")
            if not colon:
                break
            fields.append((name, value.strip()))
        return fields

    def _read_body(self, headers: Headers) -> tuple[bytes, bool]:
        length = headers.get(b"content-length")
        if headers.get(b"transfer-encoding") == b"chunked":
            return self._read_chunks()
        if length is None:
            return self._stream.read(), True
        body = self._stream.read(int(length))
        return body, len(body) == int(length)

    def _read_chunks(self) -> tuple[bytes, bool]:
        pieces: list[bytes] = []
        for _ in range(1_000_000):
            line = self._stream.readline()
            if not line.endswith(b"\r\n"):
                break
            size = int(line, 16)
            piece = self._stream.read(size)
            end = self._stream.readline()
            if len(piece) != size or end != b"\r\n":
                break
            if size == 0:
                return b"".join(pieces), True
            pieces.append(piece)
        return b"".join(pieces), False


def split_answers(data: bytes) -> list[WireAnswer]:
    """The final answers in all that a connection brought, none of them to a HEAD request."""
    reader = AnswerReader(BytesIO(data))
    answers: list[WireAnswer] = []
    try:
        for _ in range(_MOST_ANSWERS):
            answer = reader.read()
            if answer.status >= 200:
                answers.append(answer)
    except EOFError:
        return answers
    raise AssertionError(f"more than {_MOST_ANSWERS} answers")
