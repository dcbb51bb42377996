"""Addresses of one server, of sentinels and of clusters."""

from __future__ import annotations

from typing import Any

import pytest

from relay_gateway_state_redis.address import SCHEMES, Address, Node, parse_address


def facts(address: Address) -> dict[str, Any]:
    password = None if address.password is None else address.password.reveal()
    return {
        "topology": address.topology,
        "tls": address.tls,
        "nodes": [(node.host, node.port) for node in address.nodes],
        "service": address.service,
        "database": address.database,
        "login": (address.username, password),
    }


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://localhost", {"nodes": [("localhost", 6379)]}),
        ("REDIS://Localhost:7000/3", {"nodes": [("localhost", 7000)], "database": 3}),
        ("redis://localhost/", {}),
        ("redis://[::1]:7000", {"nodes": [("::1", 7000)]}),
        ("rediss://h", {"tls": True}),
        ("valkey://h", {}),
        ("valkeys://h", {"tls": True}),
        ("redis://:p%40ss@h", {"login": (None, "p@ss")}),
        ("redis://u%3A:p:q@h", {"login": ("u:", "p:q")}),
        ("redis://u@h", {"login": ("u", None)}),
        (
            "redis+sentinel://u:p@a:1,b/limits/2",
            {
                "topology": "sentinel",
                "nodes": [("a", 1), ("b", 26379)],
                "service": "limits",
                "database": 2,
                "login": ("u", "p"),
            },
        ),
        ("rediss+sentinel://a/s", {"topology": "sentinel", "tls": True, "service": "s"}),
        ("redis+cluster://a,b:1", {"topology": "cluster", "nodes": [("a", 6379), ("b", 1)]}),
        ("rediss+cluster://a", {"topology": "cluster", "tls": True}),
    ],
)
def test_a_url_is_understood(url: str, expected: dict[str, Any]) -> None:
    found = facts(parse_address(url))
    assert {name: found[name] for name in expected} == expected
    usual = {"topology": "single", "tls": False, "service": "", "database": 0}
    unsaid = usual.keys() - expected.keys()
    assert {name: found[name] for name in unsaid} == {name: usual[name] for name in unsaid}


@pytest.mark.parametrize(
    "url",
    [
        "",
        "redis",
        "redis://",
        "redis://:7000",
        "http://h",
        "memory://",
        "redis://h:port",
        "redis://h:70000",
        "redis://h/name",
        "redis://h/1/2",
        "redis://h?db=1",
        "redis://h#1",
        "redis://a,b",
        "redis+sentinel://h",
        "redis+sentinel://h/",
        "redis+sentinel://h/s/x",
        "redis+cluster://h/1",
        "redis+cluster://a,,b",
        "redis+unix:///tmp/socket",
    ],
)
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"must be redis://|needs the name|several hosts"):
        parse_address(url)


def test_every_scheme_is_understood() -> None:
    for scheme in SCHEMES:
        path = "/service" if scheme.endswith("sentinel") else ""
        assert parse_address(f"{scheme}://h:1{path}").nodes == (Node("h", 1),)


def test_t15_messages_name_the_place_and_no_credential() -> None:
    address = parse_address("redis+sentinel://user:hunter2@a:1,b:2/limits")
    assert address.place == "limits of a:1, b:2"
    assert "hunter2" not in repr(address)
