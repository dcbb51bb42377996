"""Raw requests and the one right answer to each, for a server alone and behind other servers."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ACCEPTED", "CHUNKED", "REFUSED", "Probe", "get", "post"]


@dataclass(frozen=True, slots=True)
class Probe:
    """Bytes to send and the status wanted; ``row`` is the reliability row that wants it.

    ``echoed`` is part of the answer of a server that says back method, target and body. A body must
    not be larger than 1 MiB there.
    """

    row: str
    name: str
    data: bytes
    status: int
    echoed: bytes = b""


def get(target: bytes, *fields: bytes, host: bytes = b"a.example") -> bytes:
    """A GET request with these fields after its ``Host``."""
    lines = (b"GET %b HTTP/1.1" % target, b"Host: %b" % host, *fields, b"", b"")
    return b"\r\n".join(lines)


def post(*fields: bytes, body: bytes = b"", version: bytes = b"1.1") -> bytes:
    """A POST request to ``/p`` with these fields after its ``Host``."""
    lines = (b"POST /p HTTP/%b" % version, b"Host: a.example", *fields, b"", body)
    return b"\r\n".join(lines)


CHUNKED = b"Transfer-Encoding: chunked"
"""The field of a chunked body."""

ACCEPTED = [
    Probe("t17", "plain get", get(b"/v1/models?limit=2"), 200, b"GET /v1/models?limit=2 "),
    Probe("t17", "counted body", post(b"Content-Length: 2", body=b"hi"), 200, b"POST /p? hi"),
    Probe("t17", "chunked", post(CHUNKED, body=b"2\r\nhi\r\n0\r\n\r\n"), 200, b"POST /p? hi"),
    Probe(
        "t17", "chunked in capitals", post(b"TRANSFER-ENCODING: Chunked", body=b"0\r\n\r\n"), 200
    ),
    Probe("t17", "chunk extension", post(CHUNKED, body=b"1;a=b\r\nx\r\n0\r\n\r\n"), 200, b" x"),
    Probe("f50", "trailer", post(CHUNKED, body=b"1\r\nx\r\n0\r\nA: b\r\n\r\n"), 200, b" x"),
    Probe("t17", "http 1.0 without host", b"GET /old HTTP/1.0\r\n\r\n", 200, b"GET /old"),
    Probe("t17", "one empty line before", b"\r\n" + get(b"/x"), 200, b"GET /x"),
    Probe(
        "t17", "white space around value", post(b"Content-Length: \t2 \t", body=b"hi"), 200, b"hi"
    ),
    Probe(
        "t24", "absolute form of the same host", get(b"http://A.Example/adm?q"), 200, b"GET /adm?q"
    ),
    Probe("t24", "absolute form without path", get(b"http://a.example"), 200, b"GET /? "),
    Probe("t24", "encoded space", get(b"/a%20b"), 200, b"GET /a%20b?"),
    Probe("t24", "encoded text", get(b"/%E2%82%AC"), 200, b"GET /%E2%82%AC?"),
    Probe("t24", "dots inside a segment", get(b"/model-4.1..x/.well-known"), 200),
    Probe("t24", "colon", get(b"/v1beta/models/g:generateContent"), 200),
    Probe("t24", "host with port", get(b"/", host=b"a.example:8080"), 200),
    Probe("t24", "host that is an IPv6 address", get(b"/", host=b"[::1]:8080"), 200),
    Probe("t26", "expect continue without body", get(b"/", b"Expect: 100-continue"), 200),
    Probe("t24", "encoded slash", get(b"/v1/models/vendor%2Fmodel"), 200),
    Probe("t26", "h2c", get(b"/", b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c"), 200),
    Probe(
        "t26",
        "h2c with a body",
        post(b"Content-Length: 2", b"Connection: Upgrade", b"Upgrade: h2c", body=b"hi"),
        200,
    ),
    Probe("t26", "upgrade without connection", get(b"/", b"Upgrade: websocket"), 200),
    Probe("t28", "100 fields", get(b"/", *[b"A%d: b" % n for n in range(99)]), 200),
    Probe("t28", "target of 8 KiB", get(b"/" + b"a" * 8191), 200),
]

REFUSED = [
    Probe("t17", "CL and TE", post(b"Content-Length: 4", CHUNKED, body=b"0\r\n\r\n"), 400),
    Probe("t17", "TE and CL", post(CHUNKED, b"Content-Length: 5", body=b"0\r\n\r\n"), 400),
    Probe("t17", "two equal CL", post(b"Content-Length: 2", b"Content-Length: 2", body=b"hi"), 400),
    Probe("t17", "two CL", post(b"Content-Length: 2", b"Content-Length: 3", body=b"hi"), 400),
    Probe("t17", "CL list", post(b"Content-Length: 2, 2", body=b"hi"), 400),
    Probe("t17", "CL with plus", post(b"Content-Length: +2", body=b"hi"), 400),
    Probe("t17", "CL with minus", post(b"Content-Length: -1"), 400),
    Probe("t17", "CL in hexadecimal", post(b"Content-Length: 0x2", body=b"hi"), 400),
    Probe("t17", "CL empty", post(b"Content-Length:"), 400),
    Probe("t17", "CL of 20 digits", post(b"Content-Length: 18446744073709551615"), 400),
    Probe("t17", "CL that overflows", post(b"Content-Length: 99999999999999999999999"), 400),
    Probe(
        "t17", "TE gzip, chunked", post(b"Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"), 400
    ),
    Probe("t17", "TE gzip", post(b"Transfer-Encoding: gzip"), 400),
    Probe("t17", "TE xchunked", post(b"Transfer-Encoding: xchunked", body=b"0\r\n\r\n"), 400),
    Probe("t17", "TE identity", post(b"Transfer-Encoding: identity"), 400),
    Probe("t17", "TE chunked, identity", post(b"Transfer-Encoding: chunked, identity"), 400),
    Probe("t17", "two TE", post(CHUNKED, CHUNKED, body=b"0\r\n\r\n"), 400),
    Probe("t17", "TE with vertical tab", post(b"Transfer-Encoding: \x0bchunked"), 400),
    Probe("t17", "TE with space before colon", post(b"Transfer-Encoding : chunked"), 400),
    Probe("t17", "TE in 1.0", post(CHUNKED, body=b"0\r\n\r\n", version=b"1.0"), 400),
    Probe("t17", "bare LF line ends", b"GET / HTTP/1.1\nHost: a\n\n", 400),
    Probe("t17", "bare LF after a field", b"GET / HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", 400),
    Probe("t17", "bare LF at the end", b"GET / HTTP/1.1\r\nHost: a\r\n\n", 400),
    Probe("t17", "bare CR in value", get(b"/", b"X: a\rb"), 400),
    Probe("t17", "NUL in value", get(b"/", b"X: a\0b"), 400),
    Probe("t17", "NUL in name", get(b"/", b"X\0: a"), 400),
    Probe("t17", "obs-fold", get(b"/", b"X: a\r\n b"), 400),
    Probe("t17", "space before first field", b"GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
    Probe("t17", "field without colon", get(b"/", b"Nonsense"), 400),
    Probe("t17", "field without name", get(b"/", b": a"), 400),
    Probe("t17", "two empty lines before", b"\r\n\r\n" + get(b"/"), 400),
    Probe("t17", "chunk end missing", post(CHUNKED, body=b"2\r\nhiXX\r\n0\r\n\r\n"), 400),
    Probe("t17", "chunk size with 0x", post(CHUNKED, body=b"0x2\r\nhi\r\n0\r\n\r\n"), 400),
    Probe("t17", "chunk size negative", post(CHUNKED, body=b"-2\r\nhi\r\n0\r\n\r\n"), 400),
    Probe("t17", "chunk size empty", post(CHUNKED, body=b"\r\nhi\r\n0\r\n\r\n"), 400),
    Probe("t17", "chunk size with space", post(CHUNKED, body=b"2 \r\nhi\r\n0\r\n\r\n"), 400),
    Probe("t17", "chunk line with bare LF", post(CHUNKED, body=b"2\nhi\r\n0\r\n\r\n"), 400),
    Probe("t17", "LF in extension", post(CHUNKED, body=b"2;a\nb\r\nhi\r\n0\r\n\r\n"), 400),
    Probe("t17", "CR in extension", post(CHUNKED, body=b"2;a\rb\r\nhi\r\n0\r\n\r\n"), 400),
    Probe("t17", "endless extension", post(CHUNKED, body=b"2;" + b"a" * 2000), 400),
    Probe("t17", "chunk size that overflows", post(CHUNKED, body=b"ffffffffffffffff0\r\n"), 400),
    Probe(
        "t17", "trailer that is no field", post(CHUNKED, body=b"0\r\nGET / HTTP/1.1\r\n\r\n"), 400
    ),
    Probe(
        "t17",
        "length in the trailer",
        post(CHUNKED, body=b"1\r\nx\r\n0\r\nContent-Length: 9\r\n\r\n"),
        400,
    ),
    Probe(
        "t17",
        "coding in the trailer",
        post(CHUNKED, body=b"1\r\nx\r\n0\r\ntransfer-encoding: gzip\r\n\r\n"),
        400,
    ),
    Probe("t24", "no host", b"GET / HTTP/1.1\r\n\r\n", 400),
    Probe("t24", "two hosts", get(b"/", b"Host: a.example"), 400),
    Probe("t24", "empty host", get(b"/", host=b""), 400),
    Probe("t24", "host with path and user", get(b"/", host=b"a/#@b"), 400),
    Probe("t24", "host with user", get(b"/", host=b"u@a"), 400),
    Probe("t24", "host list", get(b"/", host=b"a, b"), 400),
    Probe("t24", "host with a port too large", get(b"/", host=b"a:65536"), 400),
    Probe("t24", "host with a name as port", get(b"/", host=b"a:http"), 400),
    Probe("t24", "bad host in 1.0", b"GET / HTTP/1.0\r\nHost: a/b\r\n\r\n", 400),
    Probe("t24", "absolute form of another host", get(b"http://evil.example/adm"), 400),
    Probe("t24", "absolute form with user", get(b"http://u@a.example/adm"), 400),
    Probe("t24", "absolute form of another scheme", get(b"ftp://a.example/adm"), 400),
    Probe("t24", "absolute form in 1.0", b"GET http://a/ HTTP/1.0\r\n\r\n", 400),
    Probe("t24", "asterisk form", b"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    Probe("t24", "relative target", get(b"v1/models"), 400),
    Probe("t24", "parent segment", get(b"/v1/../auth"), 400),
    Probe("t24", "parent segment at the end", get(b"/v1/.."), 400),
    Probe("t24", "dot segment", get(b"/v1/./auth"), 400),
    Probe("t24", "empty segment", get(b"/v1//auth"), 400),
    Probe("t24", "two slashes", get(b"//auth"), 400),
    Probe("t24", "encoded parent segment", get(b"/v1/%2e%2E/auth"), 400),
    Probe("t24", "encoded backslash", get(b"/v1/%5c"), 400),
    Probe("t24", "encoded NUL", get(b"/v1/%00"), 400),
    Probe("t24", "encoded line feed", get(b"/v1/%0aX"), 400),
    Probe("t24", "encoded delete", get(b"/v1/%7F"), 400),
    Probe("t24", "overlong slash", get(b"/v1/%c0%af"), 400),
    Probe("t24", "half an encoding", get(b"/v1/%4"), 400),
    Probe("t24", "backslash", get(b"/v1\\auth"), 400),
    Probe("t24", "path parameter", get(b"/v1;a/auth"), 400),
    Probe("t24", "encoded path parameter", get(b"/v1%3Ba/auth"), 400),
    Probe("t24", "fragment", get(b"/v1#auth"), 400),
    Probe("t24", "control character", get(b"/v1\x01"), 400),
    Probe("t24", "octet above 127", get(b"/v1/\xc3\xa9"), 400),
    Probe("t24", "two spaces", b"GET  / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    Probe("t24", "tab instead of space", b"GET\t/ HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    Probe("t17", "underscore in name", get(b"/", b"X_SVC_API_Key: a"), 400),
    Probe("t26", "connect", b"CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 405),
    Probe("t26", "trace", b"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", 405),
    Probe("t26", "websocket", get(b"/", b"Connection: Upgrade", b"Upgrade: websocket"), 426),
    Probe("t26", "unknown protocol", get(b"/", b"Connection: Upgrade", b"Upgrade: h2c, x"), 426),
    Probe(
        "t26", "other expectation", post(b"Content-Length: 2", b"Expect: 200-ok", body=b"hi"), 417
    ),
    Probe("t26", "http/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
    Probe("t26", "http/0.9", b"GET /\r\n\r\n", 400),
    Probe("t26", "http/1.2", b"GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505),
    Probe("t26", "unknown method", b"BREW / HTTP/1.1\r\nHost: a\r\n\r\n", 501),
    Probe("t26", "lower-case method", b"get / HTTP/1.1\r\nHost: a\r\n\r\n", 501),
    Probe("t26", "rtsp", b"DESCRIBE / RTSP/1.0\r\n\r\n", 400),
    Probe("t26", "tls hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    Probe("t28", "40 KB in one field", get(b"/", b"X: " + b"a" * 40_000), 431),
    Probe("t28", "200 KB in one field", get(b"/", b"X: " + b"a" * 200_000), 431),
    Probe("t28", "101 fields", get(b"/", *[b"A%d: b" % n for n in range(100)]), 431),
    Probe("t28", "2000 fields", get(b"/", *[b"A%d: b" % n for n in range(2000)]), 431),
    Probe("t28", "target above 8 KiB", get(b"/" + b"a" * 8192), 414),
    Probe("t28", "target without end", b"GET /" + b"a" * 9000, 414),
    Probe("t29", "announced body too large", post(b"Content-Length: 1048577"), 413),
    Probe(
        "t29", "chunked body too large", post(CHUNKED, body=b"100001\r\n" + b"a" * 1_048_577), 413
    ),
]
