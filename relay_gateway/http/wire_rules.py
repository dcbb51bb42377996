"""Which requests the server takes: rules on the request line, target and fields, without I/O.

The parser accepts more than a careful front may (RFC 9112 leaves much to the server), and what two
parsers read differently is what smuggling is made of. So everything ambiguous is refused here, with
:class:`~relay_gateway.errors.RequestRefusedError`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_to_bytes

import msgspec

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.message import Headers

_TOKEN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_LINE_BEGIN = re.compile(_TOKEN.pattern + rb"(?: [!-~\x80-\xff]*(?: [!-~]*\r?)?)?")
_VERSION = re.compile(rb"HTTP/[0-9](?:\.[0-9])?")
_ABSOLUTE = re.compile(rb"https?://([^/?#]*)(.*)", re.IGNORECASE)
_VISIBLE = re.compile(rb"[!-~]+")
# Segments of RFC 3986 without ";" (some servers cut parameters off there), without dot segments and
# without empty ones but the last.
_PATH = re.compile(rb"(?:/(?!\.{1,2}(?:/|\Z))(?:[A-Za-z0-9\-._~!$&'()*+,=:@]|%[0-9A-Fa-f]{2})+)*/?")
# An encoded slash is allowed: paths are never decoded to route, and model names may have one.
_HIDDEN = re.compile(rb"%(?:[01][0-9a-f]|7f|2e|5c|3b)", re.IGNORECASE)
_HOST = re.compile(rb"(?:[A-Za-z0-9._\-]+|\[[0-9A-Fa-f:.]{2,45}\])(?::([0-9]{1,5}))?")

_HOST_BYTES: Final = 262
_PORTS: Final = 65536
_SINGLE: Final = (b"host", b"content-length", b"transfer-encoding", b"expect")


def malformed(message: str) -> RequestRefusedError:
    """The refusal of a request that is not HTTP as this server takes it."""
    return RequestRefusedError(400, "invalid_request", message)


class Target(msgspec.Struct, frozen=True):
    """A request target taken apart: the path as sent, the query, the authority of absolute form."""

    path: str
    query: bytes
    authority: bytes | None


def split_request_line(line: bytes, target_limit: int) -> tuple[str, bytes, str]:
    """Method, target and version (``"1.1"`` or ``"1.0"``) of a request line without its CRLF.

    Raises :class:`RequestRefusedError` 400, 405 (CONNECT, TRACE), 414 or 505.
    """
    parts = line.split(b" ")
    if len(parts) != 3 or not parts[1] or _TOKEN.fullmatch(parts[0]) is None:
        raise malformed("The request line must be a method, one target and the HTTP version.")
    method, target, version = parts
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise _wrong_version(version)
    if len(target) > target_limit:
        raise target_too_long(target_limit)
    if method in (b"CONNECT", b"TRACE"):
        message = f"The method {method.decode()} is not offered here."
        raise RequestRefusedError(405, "method_not_allowed", message)
    return method.decode("ascii"), target, version[5:].decode("ascii")


def can_become_request_line(data: bytes) -> bool:
    """Whether more bytes could make a request line of ``data``, which holds no CRLF yet."""
    return _LINE_BEGIN.fullmatch(data) is not None


def _wrong_version(version: bytes) -> RequestRefusedError:
    if _VERSION.fullmatch(version) is None:
        return malformed("The request line does not end with an HTTP version.")
    message = f"{version.decode()} is not spoken here; use HTTP/1.1."
    return RequestRefusedError(505, "http_version_not_supported", message)


def target_too_long(limit: int) -> RequestRefusedError:
    """The refusal of a request target of more than ``limit`` bytes."""
    message = f"The request target is longer than {limit} bytes."
    return RequestRefusedError(414, "uri_too_long", message)


def header_too_large(message: str) -> RequestRefusedError:
    """The refusal of a request whose fields are too many or too long."""
    return RequestRefusedError(431, "request_header_too_large", message)


@lru_cache(maxsize=256)
def split_target(target: bytes) -> Target:
    """Takes apart a target in origin or absolute form; the path must be canonical.

    Raises :class:`RequestRefusedError` 400. The path is not decoded; nothing in it can mean another
    path to somebody who does decode or normalise it.
    """
    if _VISIBLE.fullmatch(target) is None or b"#" in target:
        raise malformed("The request target contains a character that must be percent-encoded.")
    authority = None
    rest = target
    if not target.startswith(b"/"):
        absolute = _ABSOLUTE.fullmatch(target)
        if absolute is None:
            raise malformed("The request target must be a path that begins with '/'.")
        authority, rest = absolute.groups()
        rest = rest if rest.startswith(b"/") else b"/" + rest
    path, _, query = rest.partition(b"?")
    _check_path(path)
    return Target(path.decode("ascii"), query, authority)


def _check_path(path: bytes) -> None:
    """Refuses a path that a decoding or normalising reader could take for another one."""
    if _PATH.fullmatch(path) is None or not _hides_nothing(path):
        raise malformed(
            "The path is not canonical: it must not contain '//', '/./', '/../', '\\', ';', or "
            "percent-encoded dots, backslashes, semicolons or control characters."
        )


def _hides_nothing(path: bytes) -> bool:
    """Whether the percent-encoded octets are UTF-8 text (no overlong forms) and not delimiters."""
    if b"%" not in path:
        return True
    if _HIDDEN.search(path) is not None:
        return False
    try:
        unquote_to_bytes(path).decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def check_host(headers: Headers, version: str, authority: bytes | None) -> None:
    """Checks the Host field (RFC 9110 §7.2): well-formed, and the same as an absolute target's.

    Raises :class:`RequestRefusedError` 400, also when HTTP/1.1 comes without it.
    """
    host = headers.get(b"host")
    if host is None:
        if version == "1.1" or authority is not None:
            raise malformed("An HTTP/1.1 request must have exactly one Host field; found none.")
        return
    if not _is_host(host):
        raise malformed("The Host field must be a host name or address with an optional port.")
    if authority is not None and authority.lower() != host.lower():
        raise malformed("The host in the request target is not the one in the Host field.")


@lru_cache(maxsize=64)
def _is_host(host: bytes) -> bool:
    match = _HOST.fullmatch(host)
    return match is not None and len(host) <= _HOST_BYTES and int(match[1] or 0) < _PORTS


def check_fields(headers: Headers, field_limit: int) -> None:
    """Refuses too many fields (431), repeated ones that must be single, and names with ``_`` (400).

    CGI-like readers map ``-`` and ``_`` to the same letter, so ``X_Api_Key`` could pass for
    ``X-Api-Key`` behind a check that looked for the latter.
    """
    if len(headers) > field_limit:
        found = f"The request has {len(headers)} header fields; at most {field_limit} are taken."
        raise header_too_large(found)
    names = headers.names()
    if b"_" in b"".join(names):
        raise malformed("Header field names with an underscore are not taken; use '-'.")
    if len(names) != len(headers):
        for name in _SINGLE:
            if len(headers.all(name)) > 1:
                raise malformed(f"The {name.decode().title()} field must not be repeated.")


def body_framing(headers: Headers, version: str) -> tuple[int | None, bool]:
    """The body's length, ``None`` for a chunked one, and whether the caller awaits 100 (Continue).

    Raises :class:`RequestRefusedError` 400 for anything that two readers could delimit differently
    (RFC 9112 §6), 417 for an expectation other than ``100-continue``.
    """
    length = _body_length(headers, version)
    expected = headers.get(b"expect")
    if expected is None or version == "1.0":
        return length, False
    if expected.lower() != b"100-continue":
        message = "The only expectation that can be met is 100-continue."
        raise RequestRefusedError(417, "expectation_failed", message)
    return length, length != 0


def _body_length(headers: Headers, version: str) -> int | None:
    coding = headers.get(b"transfer-encoding")
    length = headers.get(b"content-length")
    if coding is None:
        return 0 if length is None else _content_length(length)
    if length is not None:
        raise malformed("Content-Length and Transfer-Encoding must not be sent together.")
    if version == "1.0":
        raise malformed("Transfer-Encoding does not exist in HTTP/1.0; send Content-Length.")
    if coding.lower() != b"chunked":
        raise malformed("The only Transfer-Encoding that is taken is chunked.")
    return None


def _content_length(value: bytes) -> int:
    # More digits than any body has would make int() slow, and other readers wrap around.
    if not value.isdigit() or len(value) > 18:
        raise malformed("Content-Length must be a decimal number of bytes.")
    return int(value)
