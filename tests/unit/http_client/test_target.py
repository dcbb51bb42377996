from __future__ import annotations

from ipaddress import ip_address

import pytest

from relay_gateway.errors import EgressProxyError, UpstreamError
from relay_gateway.http.outgoing_head import outgoing
from relay_gateway.http.race import interleave
from relay_gateway.http.target import Target
from relay_gateway.http.tunnel import Proxy
from relay_gateway.plugin import UpstreamRequest


@pytest.mark.parametrize(
    ("url", "host", "port", "authority"),
    [
        ("https://api.x.test", "api.x.test", 443, b"api.x.test"),
        ("https://api.x.test:443/v1", "api.x.test", 443, b"api.x.test"),
        ("https://api.x.test:8443/v1", "api.x.test", 8443, b"api.x.test:8443"),
        ("http://API.x.test", "api.x.test", 80, b"api.x.test"),
        ("http://[::1]:8080", "::1", 8080, b"[::1]:8080"),
        ("http://[::1]", "::1", 80, b"[::1]"),
        ("http://10.0.0.1:80", "10.0.0.1", 80, b"10.0.0.1"),
    ],
)
def test_a_target_is_read_from_an_address(url: str, host: str, port: int, authority: bytes) -> None:
    target = Target.from_url(url)
    assert (target.host, target.port, target.authority) == (host, port, authority)


@pytest.mark.parametrize("url", ["ftp://x", "http://", "unix:/tmp/x", "http://x:99999", "x"])
def test_what_is_not_an_http_address_is_no_target(url: str) -> None:
    with pytest.raises(ValueError, match=r"http|[Pp]ort"):
        Target.from_url(url)


def test_targets_with_the_same_values_are_one_key() -> None:
    one = Target.from_url("http://x.test/a", idle_timeout=3)
    assert {one: 1}[Target.from_url("http://x.test/b", idle_timeout=3)] == 1
    assert one != Target.from_url("http://x.test/a", idle_timeout=4)
    assert one != Target.from_url("http://x.test/a", idle_timeout=3, ca_file="/ca.pem")


def test_the_shortest_timeout_leaves_out_those_that_are_off() -> None:
    assert Target.from_url("http://x.test", idle_timeout=3).shortest_timeout == 3
    assert Target.from_url("http://x.test", total_timeout=2).shortest_timeout == 2


@pytest.mark.parametrize("path", [b"", b"v1", b"/a b", b"/a\r\nX: y", b"/a\t", b"/ "])
def test_a_path_that_would_break_the_request_line_is_refused(path: bytes) -> None:
    target = Target.from_url("http://x.test")
    with pytest.raises(UpstreamError, match="request target"):
        outgoing(target, UpstreamRequest(path, b"", b""))


@pytest.mark.parametrize(
    "block",
    [
        b"a: b",
        b"\r\n",
        b"a: b\n",
        b"a: b\r",
        b"a: b\r\n\r\n",
        b"a: b\r\n\r\nc: d\r\n",
        b"a: \0\r\n",
    ],
)
def test_a_block_that_would_break_the_framing_is_refused(block: bytes) -> None:
    with pytest.raises(UpstreamError, match="line break"):
        outgoing(Target.from_url("http://x.test"), UpstreamRequest(b"/", block, b""))


def test_a_proxy_has_a_scheme_a_host_and_a_port() -> None:
    assert Proxy.from_url("http://proxy.test:3128") == Proxy("http", "proxy.test", 3128)
    assert Proxy.from_url("https://proxy.test") == Proxy("https", "proxy.test", 443)


@pytest.mark.parametrize("scheme", ["socks5", "http"])
def test_a_proxy_of_another_kind_or_with_a_login_is_refused_without_quoting_it(scheme: str) -> None:
    with pytest.raises(EgressProxyError) as caught:
        Proxy.from_url(f"{scheme}://user:password@proxy.test")
    assert "password" not in str(caught.value)


def test_addresses_of_both_families_take_turns_beginning_with_the_best() -> None:
    texts = ["::1", "::2", "::3", "10.0.0.1"]
    mixed = [str(address) for address in interleave([ip_address(text) for text in texts])]
    assert mixed == ["::1", "10.0.0.1", "::2", "::3"]
