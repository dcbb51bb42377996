"""What a browser sends for another site is told from what it sends for ours."""

from __future__ import annotations

import itertools

import pytest

from relay_gateway.security.csrf import (
    cookie_problem,
    is_address_or_localhost,
    is_allowed_host,
    is_same_origin,
    origin_problem,
)

LISTED = frozenset({"https://console.example.org"})
HOST = "gateway.example.org"


def headers(**fields: str | None) -> dict[str, str]:
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return {"host": HOST} | {name: value for name, value in named.items() if value is not None}


ORIGINS = {
    None: None,
    f"https://{HOST}": True,
    "https://console.example.org": True,
    "https://evil.example.org": False,
    "null": False,
}
SITES = {None: None, "same-origin": True, "same-site": False, "cross-site": False, "none": False}
BODIES = {"application/json": True, "Application/JSON; charset=utf-8": True, None: True,
          "text/plain": False, "application/x-www-form-urlencoded": False}  # fmt: skip


@pytest.mark.parametrize(
    ("origin", "site", "media"), list(itertools.product(ORIGINS, SITES, BODIES))
)
def test_t43_unsafe_methods_need_a_same_origin_and_json(
    origin: str | None, site: str | None, media: str | None
) -> None:
    sent = headers(origin=origin, sec_fetch_site=site, content_type=media)
    told = [ORIGINS[origin], None if origin in LISTED else SITES[site]]
    expected = any(told) and False not in told and BODIES[media]
    assert (cookie_problem("POST", sent, LISTED) is None) is expected
    assert cookie_problem("GET", sent, LISTED) is None
    with_header = cookie_problem("DELETE", {**sent, "x-relay-csrf": "1"}, LISTED)
    assert (with_header is None) is (any(told) and False not in told)


def test_other_programs_than_browsers_may_log_in() -> None:
    assert origin_problem(headers(), ()) is None
    assert origin_problem(headers(origin="https://evil.example.org"), ()) is not None
    assert origin_problem(headers(sec_fetch_site="cross-site"), ()) is not None


@pytest.mark.parametrize(
    ("origin", "host", "same"),
    [
        ("https://a.example", "a.example", True),
        ("https://a.example:443", "a.example", True),
        ("http://a.example", "a.example:80", True),
        ("http://[::1]:8081", "[::1]:8081", True),
        ("https://A.example", "a.EXAMPLE", True),
        ("http://a.example", "a.example:8081", False),
        ("https://a.example.evil", "a.example", False),
        ("https://evil/a.example", "a.example", False),
        ("file://a.example", "a.example", False),
        ("null", "a.example", False),
        ("", "a.example", False),
        ("https://a.example:x", "a.example", False),
        ("https://", "", False),
    ],
)
def test_an_origin_is_ours_by_host_and_port(origin: str, host: str, same: bool) -> None:
    assert is_same_origin(origin, host) is same


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("a.example", True),
        ("A.example:8081", True),
        ("b.sub.example", True),
        ("sub.example", False),
        ("a.example.evil", False),
        ("", False),
        ("[x", False),
    ],
)
def test_hosts_are_compared_whole(host: str, allowed: bool) -> None:
    assert is_allowed_host(host, ["a.example", "*.sub.example"]) is allowed
    assert is_allowed_host(host, ["*"])


def test_names_that_a_name_server_could_point_here_are_told_from_addresses() -> None:
    good = ("localhost", "localhost:8081", "x.localhost", "127.0.0.1:1", "[::1]:8081", "10.1.2.3")
    assert all(is_address_or_localhost(host) for host in good)
    bad = ("example.org", "127.0.0.1.example.org", "localhost.example.org", "", "[x")
    assert not any(is_address_or_localhost(host) for host in bad)
