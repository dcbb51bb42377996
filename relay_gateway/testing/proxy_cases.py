"""Requests and answers by chance, to be compared with and without the gateway between them."""

from __future__ import annotations

import gzip
import random
import zlib
from dataclasses import dataclass
from typing import Final

from relay_gateway.testing.proxied import in_chunks
from relay_gateway.testing.script import LAST_CHUNK, Close, Script, Send, chunk

Fields = list[tuple[bytes, bytes]]

LARGE_EVERY: Final = 1000
"""One case in so many has a body between half the largest size and the largest."""

_NAME: Final = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.!#$%&'*+^`|~"
_QUERY: Final = "abcXYZ0189-._~!$&'()*+,;=:@/?%[]|{}\"<>\\^`"
_SEGMENT: Final = "abcXYZ0189-_~!$&'()*+,=:@"
_METHODS: Final = ("GET", "POST", "POST", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")
_STATUSES: Final = (200, 200, 200, 200, 201, 202, 204, 206, 301, 304, 307, 400, 401, 404, 413, 422,
                    429, 500, 503, 529)  # fmt: skip
_USUAL: Final = (
    (b"Accept-Encoding", b"gzip, deflate, br, zstd"),
    (b"accept", b"*/*"),
    (b"User-Agent", b"agent/1.0 (x; y)"),
    (b"Authorization", b"Bearer sk-of-the-caller"),
    (b"x-api-key", b"sk-of-the-caller"),
    (b"x-vendor-beta", b"one-2026-01-01,two-2026-02-02"),
    (b"traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    (b"X-Forwarded-For", b"192.0.2.1"),
    (b"If-None-Match", b'"abc"'),
    (b"Idempotency-Key", b"k"),
    (b"Range", b"bytes=0-9"),
    (b"Cookie", b"a=b"),
    (b"TE", b"trailers"),
    (b"Keep-Alive", b"timeout=5"),
    (b"X-Relay-Odd", b"1"),
    (b"x.relay.odd", b"1"),
)
_OF_ANSWERS: Final = (
    (b"Date", b"Fri, 20 Nov 2026 12:00:00 GMT"),
    (b"Server", b"upstream"),
    (b"Set-Cookie", b"a=b"),
    (b"Cache-Control", b"no-cache"),
    (b"ETag", b'"x"'),
    (b"Location", b"/elsewhere"),
    (b"request-id", b"req_1"),
    (b"x-ratelimit-remaining-requests", b"9"),
    (b"Keep-Alive", b"timeout=5"),
    (b"X-Relay-Host", b"somebody"),
    (b"Vary", b"Accept-Encoding"),
    (b"WWW-Authenticate", b"Bearer"),
)


@dataclass(frozen=True, slots=True)
class ProxyCase:
    """One request and the answer that it gets. ``fields`` are the request's header fields without
    ``Host`` and the framing, ``content`` its body, ``framed`` the body with its framing."""

    number: int
    method: str
    target: str
    fields: Fields
    content: bytes
    framing: Fields
    framed: bytes
    status: int
    answer_fields: Fields
    answer: bytes
    script: Script

    def request(self, before: str, extra: Fields) -> bytes:
        """The whole request; ``before`` goes before its path, ``extra`` before its fields."""
        fields = [(b"Host", b"gateway.test"), *extra, *self.fields, *self.framing]
        lines = [b"%b: %b\r\n" % field for field in fields]
        line = f"{self.method} {before}{self.target} HTTP/1.1\r\n".encode("ascii")
        return b"".join((line, *lines, b"\r\n", self.framed))


def is_large(number: int) -> bool:
    """Whether the case with this number is one of the large ones."""
    return number % LARGE_EVERY == LARGE_EVERY - 1


def make_case(number: int, seed: int, largest: int) -> ProxyCase:
    """The case with this number: the same each time. Bodies have up to ``largest`` bytes."""
    chance = random.Random(seed * 1_000_003 + number)  # noqa: S311 - repeatable, not secret
    method = "POST" if is_large(number) else chance.choice(_METHODS)
    known = method == "POST" and chance.random() < 0.5
    path = "/v1/plain" if known else _path(chance)
    target = f"{path}?{_text(chance, _QUERY, 1, 60)}" if chance.random() < 0.4 else path
    content, encoded = _content(chance, method, _size(chance, number, largest), known=known)
    fields = [*_fields(chance, _USUAL), *encoded, (b"X-Case", b"%d" % number)]
    chance.shuffle(fields)
    framing, framed = _framed(chance, content, method)
    status, answer_fields, answer, script = _answer(chance, method)
    return ProxyCase(number, method, target, fields, content, framing, framed, status,
                     answer_fields, answer, script)  # fmt: skip


def _path(chance: random.Random) -> str:
    count = chance.randint(1, 4)
    segments = [_text(chance, _SEGMENT, 1, 12) for _ in range(count)]
    slash = "/" if chance.random() < 0.1 else ""
    escape = "%20%C3%A4" if chance.random() < 0.1 else ""
    return f"/{'/'.join(segments)}{escape}{slash}"


def _content(chance: random.Random, method: str, size: int, *, known: bool) -> tuple[bytes, Fields]:
    """A body of about ``size`` bytes, and the fields that tell what it is."""
    if known:
        space = b" " * chance.randint(0, 3)
        filling = _filling(chance, size)
        members = [b'"model":%b"m"' % space, b'"text":"%b"' % filling, b'"n":[2.50e1,{"model":1}]']
        chance.shuffle(members)
        return _encoded(chance, b"{%b}" % b",".join(members))
    if method in ("GET", "HEAD", "OPTIONS", "DELETE") and chance.random() < 0.8:
        return b"", []
    kinds = [b"application/octet-stream", b"text/plain", b"multipart/form-data; boundary=x"]
    label: Fields = [(b"Content-Encoding", b"x-odd")] if chance.random() < 0.1 else []
    return b"." + chance.randbytes(size), [(b"Content-Type", chance.choice(kinds)), *label]


def _filling(chance: random.Random, size: int) -> bytes:
    # Long enough to be different everywhere, and quick to make.
    block = b"".join(b"%x" % byte for byte in chance.randbytes(1009))
    return (block * (size // len(block) + 1))[:size]


def _encoded(chance: random.Random, body: bytes) -> tuple[bytes, Fields]:
    kind = (b"content-type", b"application/json")
    draw = chance.random()
    if draw < 0.1 and len(body) < 1_000_000:
        return gzip.compress(body, 1, mtime=0), [kind, (b"Content-Encoding", b"gzip")]
    if draw < 0.2 and len(body) < 1_000_000:
        return zlib.compress(body, 1), [kind, (b"content-encoding", b"Deflate")]
    return body, [kind]


def _size(chance: random.Random, number: int, largest: int) -> int:
    if is_large(number):
        return chance.randint(largest // 2, largest)
    draw = chance.random()
    if draw < 0.8:
        return chance.randint(0, 3000)
    if draw < 0.98:
        return chance.randint(3000, 120_000)
    return chance.randint(120_000, 2_000_000)


def _framed(chance: random.Random, content: bytes, method: str) -> tuple[Fields, bytes]:
    if chance.random() < 0.3 and method not in ("GET", "HEAD"):
        step = max(1, len(content) // chance.randint(1, 20))
        pieces = [content[at : at + step] for at in range(0, len(content), step)]
        return [(b"Transfer-Encoding", b"chunked")], in_chunks(pieces)
    if content or method in ("POST", "PUT", "PATCH"):
        return [(b"content-length", b"%d" % len(content))], content
    return [], b""


def _fields(chance: random.Random, usual: tuple[tuple[bytes, bytes], ...]) -> Fields:
    fields = [field for field in usual if chance.random() < 0.3]
    for _ in range(chance.randint(0, 8)):
        name = b"Q" + bytes(chance.choices(_NAME, k=chance.randint(1, 20)))
        value = bytes(chance.choices(range(33, 256), k=chance.randint(0, 40)))
        fields.append((name, value.replace(b"\x7f", b"")))
        if chance.random() < 0.2:
            fields.append((name.swapcase(), b"again"))
    if chance.random() < 0.1:
        fields += [(b"Connection", b"keep-alive, X-Hop"), (b"x-hop", b"1")]
    return fields


def _answer(chance: random.Random, method: str) -> tuple[int, Fields, bytes, list[Send | Close]]:
    """Status, fields, body and script of an answer."""
    status = chance.choice(_STATUSES)
    fields = _fields(chance, _OF_ANSWERS)
    silent = method == "HEAD" or status in (204, 304)
    body = b"" if silent else chance.randbytes(_size(chance, 0, 0))
    lines = [b"%b: %b\r\n" % field for field in fields]
    start = b"HTTP/1.1 %d Some words\r\n%b" % (status, b"".join(lines))
    draw = chance.random()
    if silent or draw < 0.5:
        size = chance.randint(0, 999) if method == "HEAD" else len(body)
        length = b"" if status in (204, 304) else b"Content-Length: %d\r\n" % size
        return status, fields, body, [Send(b"%b%b\r\n%b" % (start, length, body))]
    if draw < 0.9:
        step = max(1, len(body) // chance.randint(1, 10))
        sends = [Send(chunk(body[at : at + step])) for at in range(0, len(body), step)]
        head = Send(start + b"Transfer-Encoding: chunked\r\n\r\n")
        return status, fields, body, [head, *sends, Send(LAST_CHUNK)]
    return status, fields, body, [Send(start + b"Connection: close\r\n\r\n" + body), Close()]


def _text(chance: random.Random, letters: str, least: int, most: int) -> str:
    return "".join(chance.choices(letters, k=chance.randint(least, most)))
