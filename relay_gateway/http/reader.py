"""Reads upstream responses from bytes: httptools plus the strictness that it lacks. No I/O."""

from __future__ import annotations

import httptools

from relay_gateway.errors import UpstreamProtocolError
from relay_gateway.http.message import NO_HEADERS, Header, Headers

MAX_HEAD_BYTES = 64 * 1024
MAX_HEADER_FIELDS = 256
MAX_INFORMATIONAL = 20
MAX_FRAMING_BYTES = 64 * 1024
"""How much may come without a byte of body while one is due: chunk extensions, trailers."""

_VERSION = b"HTTP/1."


class _RefusedError(Exception):
    """Stops the parser; the reason is already noted."""


class ResponseReader:
    """Parser of the responses of one connection.

    :meth:`begin` before each request, :meth:`feed` for what arrives, which answers with body bytes.
    Then ``head_complete`` with ``status`` and ``headers``, ``complete`` and at last ``keep_alive``.
    Informational responses are skipped, trailers are dropped.
    """

    __slots__ = (
        "_bodyless",
        "_fields",
        "_framed",
        "_head_bytes",
        "_informational",
        "_parser",
        "_pieces",
        "_prefix",
        "_problem",
        "_silent",
        "_transfer_coded",
        "_versioned",
        "complete",
        "head_complete",
        "headers",
        "keep_alive",
        "on_body",
        "status",
        "trailing",
    )

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self.on_body = self._pieces.append
        """A piece of the body, as long as it was in one read."""
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self.begin(bodyless=False)

    def begin(self, *, bodyless: bool) -> None:
        """Expects the response to the next request; ``bodyless`` for one to ``HEAD``."""
        self._bodyless = bodyless
        self._pieces.clear()
        self._informational = 0
        self._head_bytes = 0
        self._silent = 0
        self._problem = ""
        self._prefix = b""
        self._versioned = False
        self.complete = False
        self.keep_alive = False
        self.trailing = False
        self._begin_head()

    def _begin_head(self) -> None:
        self.status = 0
        self.headers = NO_HEADERS
        self._fields: list[Header] = []
        self.head_complete = False
        self._framed = False
        self._transfer_coded = False

    def feed(self, data: bytes) -> bytes:
        """Takes what arrived; the body bytes in it.

        Raises :class:`UpstreamProtocolError` for what is not a sound response; body bytes before
        the fault can then be taken.
        """
        parser = self._parser
        if parser is None:
            return b""
        if not self._versioned and not self._begins_well(data):
            self._check_version(data)
        try:
            parser.feed_data(data)
        except httptools.HttpParserError as error:
            if not self.complete:
                reason = self._problem or str(error)
                raise UpstreamProtocolError(
                    f"the upstream's answer is malformed: {reason}"
                ) from error
            self.trailing = True
        if self._pieces:
            return self.take()
        if not self.complete:
            self._count_silence(len(data))
        return b""

    def _begins_well(self, data: bytes) -> bool:
        """Whether an answer begins here that tells its version in one piece, as nearly all do."""
        self._versioned = not self._prefix and data.startswith(_VERSION)
        return self._versioned

    def _check_version(self, data: bytes) -> None:
        self._prefix += data[: len(_VERSION) - len(self._prefix)]
        if not _VERSION.startswith(self._prefix):
            raise UpstreamProtocolError("the upstream's answer is not HTTP/1.1")
        self._versioned = len(self._prefix) == len(_VERSION)

    def _count_silence(self, amount: int) -> None:
        self._silent += amount
        limit = MAX_FRAMING_BYTES if self.head_complete else MAX_HEAD_BYTES
        if self._silent > limit:
            part = "chunk framing" if self.head_complete else "header"
            raise UpstreamProtocolError(
                f"the upstream's answer is malformed: more than {limit} bytes of {part}"
            )

    def take(self) -> bytes:
        """The body bytes that arrived and were not taken, joined."""
        pieces = self._pieces
        self._silent = 0
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        return b"" if self._bodyless else body

    def finish(self) -> bool:
        """The peer ended the stream: whether that completes the response."""
        if self.head_complete and not self.complete and not self._framed:
            self.complete = True
        return self.complete

    def close(self) -> None:
        """Lets go of the parser, which refers back to this object."""
        self._parser = None

    # Called by the parser.

    def on_message_begin(self) -> None:
        """Another message after the final one is an answer that nobody asked for."""
        if self.complete:
            self._refuse("bytes after the end of the response")

    def on_header(self, name: bytes, value: bytes) -> None:
        """One header or trailer field."""
        self._head_bytes += len(name) + len(value) + 4
        if self._head_bytes > MAX_HEAD_BYTES:
            self._refuse(f"more than {MAX_HEAD_BYTES} bytes of header")
        if not self.head_complete:
            self._fields.append((name, value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        """The head of an informational or the final response."""
        parser = self._parser
        if parser is None or self.complete:
            return
        fields, self._fields = self._fields, []
        if len(fields) > MAX_HEADER_FIELDS:
            self._refuse(f"more than {MAX_HEADER_FIELDS} header fields")
        self.headers = headers = Headers(fields)
        self._framed = b"content-length" in headers
        if b"transfer-encoding" in headers:
            self._check_coding(headers)
        status = self.status = parser.get_status_code()
        if status == 101 or not 100 <= status <= 599:
            self._refuse(f"status {status}")
        if self._transfer_coded and parser.get_http_version() != "1.1":
            self._refuse("Transfer-Encoding in HTTP/1.0")
        if status < 200:
            return
        self.head_complete = True
        self._silent = 0
        # The parser cannot be told that this request was a HEAD and would wait for a body.
        self.complete = self._bodyless

    def on_message_complete(self) -> None:
        """The end of an informational or the final response."""
        if self.complete or self._parser is None:
            return
        if not self.head_complete:
            self._skip_informational()
            return
        self.complete = True
        self.keep_alive = self._parser.should_keep_alive()

    def _skip_informational(self) -> None:
        self._informational += 1
        if self._informational > MAX_INFORMATIONAL:
            self._refuse(f"more than {MAX_INFORMATIONAL} informational responses")
        self._begin_head()

    def _check_coding(self, headers: Headers) -> None:
        name = b"transfer-encoding"
        if headers.is_repeated(name) or (headers.get(name) or b"").lower() != b"chunked":
            self._refuse("a Transfer-Encoding other than 'chunked'")
        self._framed = self._transfer_coded = True

    def _refuse(self, reason: str) -> None:
        self._problem = reason
        raise _RefusedError(reason)
