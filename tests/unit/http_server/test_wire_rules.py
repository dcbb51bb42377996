from __future__ import annotations

import posixpath
from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.message import Headers
from relay_gateway.http.wire_rules import (
    body_framing,
    check_fields,
    check_host,
    split_request_line,
    split_target,
)

path_text = st.text(alphabet="abAB01./%25eEfFcC0\\;:@~_-#? \x00é", max_size=24)


@given(path_text)
@example("/a/%2e%2e/b")
@example("/a/..;/b")
@example("/%c0%ae/")
def test_t24_accepted_path_means_the_same_decoded_and_normalised(text: str) -> None:
    """Guard and router agree on every path: none has another reading."""
    target = b"/" + text.encode()
    try:
        path = split_target(target).path
    except RequestRefusedError:
        return
    decoded = unquote(path, errors="strict")
    assert decoded.count("/") == path.count("/")
    assert posixpath.normpath(decoded).rstrip("/") == decoded.rstrip("/")
    assert decoded.isprintable()
    assert not set(decoded) & set("\\;#?")
    assert target.startswith(path.encode())


def test_query_is_kept_apart_and_untouched() -> None:
    target = split_target(b"/v1/models?a=/../b&c=%2e%2e?d")
    assert (target.path, target.query) == ("/v1/models", b"a=/../b&c=%2e%2e?d")


def test_t24_absolute_form_gives_its_path_and_authority() -> None:
    target = split_target(b"HTTPS://a.example:1/x?y")
    assert (target.path, target.query, target.authority) == ("/x", b"y", b"a.example:1")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (b"", 400),
        (b"GET", 400),
        (b"GET  HTTP/1.1", 400),
        (b"GET / HTTP/1.1 ", 400),
        (b"GE(T / HTTP/1.1", 400),
        (b"GET / HTTP/11", 400),
        (b"GET / http/1.1", 400),
        (b"GET / HTTP/3", 505),
        (b"GET /%b HTTP/1.1" % (b"a" * 100), 414),
        (b"TRACE / HTTP/1.1", 405),
        (b"CONNECT a:1 HTTP/1.1", 405),
    ],
)
def test_request_line_is_refused(line: bytes, status: int) -> None:
    with pytest.raises(RequestRefusedError) as refused:
        split_request_line(line, 100)
    assert refused.value.status == status


@pytest.mark.parametrize(
    "host", [b"a", b"A_b-c.d:0", b"127.0.0.1:65535", b"[::1]", b"[fe80::1]:80"]
)
def test_t24_host_is_accepted(host: bytes) -> None:
    check_host(Headers([(b"Host", host)]), "1.1", None)


@pytest.mark.parametrize(
    "host",
    [
        b"",
        b":80",
        b"a:",
        b"a:65536",
        b"a:-1",
        b"a b",
        b"a/b",
        b"a@b",
        b"[::1",
        b"::1",
        b"[g::]",
        b"a,b",
        b"%61",
        b"a" * 263,
        b"a\xff",
        b"a?b",
        b"a#b",
        b"a\\b",
    ],
)
def test_t24_host_is_refused(host: bytes) -> None:
    with pytest.raises(RequestRefusedError) as refused:
        check_host(Headers([(b"Host", host)]), "1.1", None)
    assert refused.value.status == 400


def test_t17_underscore_in_a_name_is_refused_wherever_it_is() -> None:
    fields = [(b"A", b"b"), (b"X-_Y", b"c"), (b"D", b"e")]
    with pytest.raises(RequestRefusedError, match="underscore"):
        check_fields(Headers(fields), 100)


@pytest.mark.parametrize("name", [b"Host", b"content-LENGTH", b"Transfer-Encoding", b"expect"])
def test_t17_field_that_must_be_single_is_refused_twice(name: bytes) -> None:
    with pytest.raises(RequestRefusedError, match="repeated"):
        check_fields(Headers([(name, b"a"), (b"X", b"b"), (name.upper(), b"a")]), 100)


def test_other_fields_may_be_repeated() -> None:
    check_fields(Headers([(b"Accept", b"a"), (b"accept", b"b")]), 2)


def test_framing_of_a_request_without_a_body() -> None:
    assert body_framing(Headers(), "1.1") == (0, False)


def test_expectation_of_http_1_0_is_ignored() -> None:
    assert body_framing(Headers([(b"Expect", b"x"), (b"Content-Length", b"3")]), "1.0") == (
        3,
        False,
    )


def test_caller_that_awaits_continue_is_recognised() -> None:
    fields = [(b"Expect", b"100-Continue"), (b"Transfer-Encoding", b"chunked")]
    assert body_framing(Headers(fields), "1.1") == (None, True)
