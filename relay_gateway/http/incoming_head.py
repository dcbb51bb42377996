"""Reading the head of a request: found in the stream, parsed by httptools, held to the rules.

Clients repeat themselves: on a kept connection one head after the other is the same but for its
``Content-Length``. Such a head is compared, not parsed again.
"""

from __future__ import annotations

import re
from typing import Final

import httptools
import msgspec

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.limits import ServerLimits
from relay_gateway.http.message import Headers, HeadMemory
from relay_gateway.http.wire_rules import (
    body_framing,
    can_become_request_line,
    check_fields,
    check_host,
    header_too_large,
    malformed,
    split_request_line,
    split_target,
    target_too_long,
)

_END: Final = b"\r\n\r\n"
# A method and the white space before an over-long target.
_REQUEST_LINE_SLACK: Final = 64
_LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,18})\r\n", re.IGNORECASE)
_LENGTH_DIGITS: Final = 18


class RequestHead(msgspec.Struct, frozen=True):
    """What a request says before its body; ``length`` is ``None`` for a chunked one.

    ``memory`` is the same object in heads that differ in their length only.
    """

    method: str
    path: str
    query: bytes
    version: str
    headers: Headers
    length: int | None
    expects_continue: bool
    keep_alive: bool
    memory: HeadMemory


class _Fields:
    """Receives the parser's callbacks for one head."""

    __slots__ = ("headers", "keep_alive", "on_header", "parser")

    def __init__(self) -> None:
        self.headers = Headers()
        self.on_header = self.headers.add
        self.keep_alive = False
        self.parser = httptools.HttpRequestParser(self)

    def on_headers_complete(self) -> None:
        self.keep_alive = self.parser.should_keep_alive()


class HeadReader:
    """Finds and reads one head after the other in what a connection brings.

    It never looks at a byte behind the head, so bodies and pipelined requests stay with its owner.
    """

    __slots__ = (
        "_after",
        "_before",
        "_blank",
        "_buffer",
        "_digits",
        "_fed",
        "_fields",
        "_limits",
        "head",
    )

    def __init__(self, limits: ServerLimits) -> None:
        self._limits = limits
        self._buffer = b""
        self._blank = False
        self._fed = 0
        self._fields: _Fields | None = None
        # The last head as it was on the wire, without the digits of its length.
        self._before = self._after = self._digits = b""
        self.head: RequestHead | None = None

    @property
    def begun(self) -> bool:
        """Whether part of a head has arrived and the rest of it has not."""
        return bool(self._buffer)

    def feed(self, data: bytes) -> bytes | None:
        """What follows the head, which is then in ``head``; ``None`` while it is incomplete.

        Raises :class:`RequestRefusedError` as soon as the bytes cannot become an acceptable head.
        """
        before = self._before
        if before and data.startswith(before) and not self._buffer:
            start = len(before)
            end = data.find(b"\r", start, start + _LENGTH_DIGITS + 1)
            if data.startswith(self._after, end) and self._repeats(data[start:end]):
                return data[end + len(self._after) :]
        return self._feed_new(data)

    def _repeats(self, digits: bytes) -> bool:
        """Takes the last head again, with the length that ``digits`` tell."""
        head = self.head
        self._blank = False
        if digits == self._digits:
            return head is not None
        if head is None or not digits.isdigit():
            return False
        self._digits = digits
        headers = head.headers.replaced(b"content-length", digits)
        self.head = msgspec.structs.replace(head, headers=headers, length=int(digits))
        return True

    def _feed_new(self, data: bytes) -> bytes | None:
        searched = max(0, len(self._buffer) - 3)
        if self._buffer:
            data = self._buffer + data
        if data[:1] in b"\r\n":
            data = self._drop_blank_line(data)
        end = data.find(_END, searched)
        size = len(data) if end < 0 else end + 4
        if size > self._limits.header_bytes:
            raise self._oversized(data)
        if end < 0:
            self._buffer = data
            self._read_part(data)
            return None
        self.head = head = self._read(data[:size])
        self._buffer = b""
        self._blank = False
        self._remember(head, data[:size])
        return data[size:]

    def _remember(self, head: RequestHead, wire: bytes) -> None:
        """Keeps the head for comparison, if it is one that differs in its length at most."""
        self._before = b""
        found = _LENGTH.search(wire)
        longest = self._limits.header_bytes - _LENGTH_DIGITS
        if found is not None and b"expect" not in head.headers and len(wire) <= longest:
            start, end = found.span(1)
            self._before, self._digits, self._after = wire[:start], wire[start:end], wire[end:]

    def close(self) -> None:
        """Lets go of what is held for an unfinished head, parser included, and of the last one."""
        self._buffer = self._before = b""
        self.head = None
        self._release()

    def _drop_blank_line(self, data: bytes) -> bytes:
        """Skips the one empty line that may precede a request (RFC 9112 §2.2)."""
        if data in (b"", b"\r"):
            return data
        rest = data[2:]
        if self._blank or not data.startswith(b"\r\n") or rest[:1] in (b"\r", b"\n"):
            raise malformed("A request must begin with a method.")
        self._blank = True
        return rest

    def _oversized(self, data: bytes) -> RequestRefusedError:
        if b"\r\n" not in data:
            return target_too_long(self._limits.target_bytes)
        limit = self._limits.header_bytes
        return header_too_large(f"The request line and header fields exceed {limit} bytes.")

    def _read_part(self, data: bytes) -> None:
        """Refuses an incomplete head that is broken already, without waiting for its end."""
        line, found, _ = data.partition(b"\r\n")
        if found:
            if not self._fed:
                split_request_line(line, self._limits.target_bytes)
            self._parse(data)
        elif len(data) > self._limits.target_bytes + _REQUEST_LINE_SLACK:
            raise target_too_long(self._limits.target_bytes)
        elif data not in (b"", b"\r") and not can_become_request_line(data):
            raise malformed("The request does not begin with an HTTP request line.")

    def _read(self, head: bytes) -> RequestHead:
        line = head[: head.find(b"\r\n")]
        method, target, version = split_request_line(line, self._limits.target_bytes)
        fields = self._parse(head)
        self._release()
        headers = fields.headers
        if b" \r\n" in head or b"\t\r\n" in head:
            headers = Headers([(name, value.rstrip(b" \t")) for name, value in headers.fields])
        check_fields(headers, self._limits.header_fields)
        parts = split_target(target)
        check_host(headers, version, parts.authority)
        length, expects = body_framing(headers, version)
        keep_alive = fields.keep_alive
        return RequestHead(
            method,
            parts.path,
            parts.query,
            version,
            headers,
            length,
            expects,
            keep_alive,
            HeadMemory(),
        )

    def _parse(self, data: bytes) -> _Fields:
        """Feeds the parser with what it has not seen of ``data``, the head from its beginning."""
        if self._fields is None:
            self._fields = _Fields()
        new = data[self._fed :] if self._fed else data
        self._fed = len(data)
        try:
            self._fields.parser.feed_data(new)
        except httptools.HttpParserUpgrade as upgrade:
            if not _can_be_ignored(self._fields.headers):
                message = "The protocol cannot be changed here; use HTTP/1.1 requests."
                raise RequestRefusedError(426, "upgrade_not_offered", message) from upgrade
        except httptools.HttpParserInvalidMethodError as error:
            message = "The request method is not known here."
            raise RequestRefusedError(501, "method_not_implemented", message) from error
        except httptools.HttpParserError as error:
            raise malformed(f"The request is not well-formed HTTP: {error}.") from error
        return self._fields

    def _release(self) -> None:
        # The parser holds callbacks of the object that holds the parser.
        if self._fields is not None:
            del self._fields.parser
            self._fields = None
        self._fed = 0


def _can_be_ignored(headers: Headers) -> bool:
    """Whether the only protocol offered is HTTP/2, as some clients do with every first request on a
    plain connection: a server may go on in HTTP/1.1 as if it had not been asked (RFC 9110 §7.8)."""
    return all(value.lower() == b"h2c" for value in headers.all(b"upgrade"))
