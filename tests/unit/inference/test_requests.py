"""The gateway's own headers are read under each prefix, and bad ones are named."""

from __future__ import annotations

from ipaddress import ip_network

import pytest

from relay_gateway.errors import RequestRefusedError
from relay_gateway.http.addresses import AddressReader
from relay_gateway.http.message import Headers
from relay_gateway.inference.requests import (
    GatewayHeaders,
    HeaderReader,
    client_request_id,
    user_agent,
)

READER = HeaderReader(("X-Relay-", "X-SVC-"))


def read(**fields: str) -> GatewayHeaders:
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in fields.items()]
    return READER.read(Headers(named))


def test_headers_are_read_under_either_prefix_in_any_case() -> None:
    own = read(
        X_Relay_Request_Tags='{"team":"a"}',
        x_svc_upstream_host="east",
        X_SVC_REQUEST_TIMEOUT="1.5",
    )
    assert own == GatewayHeaders({"team": "a"}, "east", 1.5)


def test_without_headers_nothing_is_set() -> None:
    assert read() == GatewayHeaders()


@pytest.mark.parametrize(
    "tags",
    [
        "",
        "x",
        "[]",
        '{"a":1}',
        '{"":"x"}',
        '{"a":"\\u0007"}',
        '{"a":"' + "x" * 257 + '"}',
        '{"' + "x" * 65 + '":"a"}',
        "{" + ",".join(f'"t{n}":"v"' for n in range(17)) + "}",
    ],
)
def test_t42_bad_tags_are_refused(tags: str) -> None:
    with pytest.raises(RequestRefusedError) as refused:
        read(X_Relay_Request_Tags=tags)
    assert (refused.value.status, refused.value.param) == (400, "request-tags")


@pytest.mark.parametrize("value", ["", "0", "-1", "nan", "inf", "1e9", "soon"])
def test_bad_deadlines_are_refused(value: str) -> None:
    with pytest.raises(RequestRefusedError) as refused:
        read(X_Relay_Request_Timeout=value)
    assert refused.value.param == "request-timeout"


@pytest.mark.parametrize("value", ["a b", "é", "x" * 129, "a\x7f"])
def test_t52_a_client_request_id_that_is_not_visible_ascii_is_ignored(value: str) -> None:
    assert client_request_id(Headers([(b"X-Request-Id", value.encode())])) is None
    assert client_request_id(Headers([(b"X-Request-Id", b"abc-1")])) == "abc-1"


def test_t52_a_user_agent_loses_its_control_characters_and_its_length() -> None:
    agent = user_agent(Headers([(b"User-Agent", b"a\x1b[31m" + b"b" * 300)]))
    assert agent is not None
    assert agent.startswith("a?[31mb")
    assert len(agent) == 256


@pytest.mark.parametrize(
    ("peer", "forwarded", "expected"),
    [
        ("203.0.113.9", "1.2.3.4", "203.0.113.9"),
        ("10.0.0.1", "1.2.3.4", "1.2.3.4"),
        ("10.0.0.1", "9.9.9.9, 1.2.3.4, 10.0.0.2", "1.2.3.4"),
        ("10.0.0.1", "10.0.0.3, 10.0.0.2", "10.0.0.3"),
        ("10.0.0.1", "1.2.3.4, not-an-address", "10.0.0.1"),
        ("10.0.0.1", "", "10.0.0.1"),
    ],
)
def test_t25_forwarded_addresses_are_believed_only_from_trusted_proxies(
    peer: str, forwarded: str, expected: str
) -> None:
    reader = AddressReader([ip_network("10.0.0.0/8")])
    assert reader.read(peer, Headers([(b"X-Forwarded-For", forwarded.encode())])) == expected


def test_t25_nobody_is_trusted_by_default() -> None:
    headers = Headers([(b"x-forwarded-for", b"1.2.3.4")])
    assert AddressReader([]).read("10.0.0.1", headers) == "10.0.0.1"


def test_proxy_mode_is_asked_for_by_one_word_under_either_prefix() -> None:
    assert read(x_svc_proxy_mode="Proxy").proxy_mode
    assert read(X_Relay_Proxy_Mode="proxy").proxy_mode
    assert not read(x_relay_request_timeout="1").proxy_mode


def test_proxy_mode_is_noticed_whatever_the_header_says() -> None:
    assert READER.names_proxy_mode(Headers([(b"X-SVC-Proxy-Mode", b"maybe")]))
    assert not READER.names_proxy_mode(Headers([(b"X-Proxy-Mode", b"Proxy")]))
