from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from relay_gateway.errors import UpstreamConnectError
from relay_gateway.http.egress import EgressRules

NEVER = [
    "169.254.169.254",
    "169.254.170.23",
    "168.63.129.16",
    "100.100.100.200",
    "192.0.0.192",
    "fd00:ec2::254",
    "fd00:ec2::23",
    "fd20:ce::254",
    "169.254.0.1",
    "fe80::1",
    "fe80::1%eth0",
    "224.0.0.1",
    "239.255.255.255",
    "ff02::1",
    "0.0.0.0",
    "0.1.2.3",
    "::",
    "240.0.0.1",
    "255.255.255.255",
    "192.0.0.1",
    "2001:db8::1",
    "2001:0:1::1",
    "fec0::1",
    "100::1",
    "::ffff:169.254.169.254",
    "::ffff:0.0.0.0",
    "::169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
]
PRIVATE = ["127.0.0.1", "127.9.9.9", "10.0.0.1", "172.16.0.1", "192.168.0.1", "100.64.0.1"]
PRIVATE += ["::1", "fc00::1", "fd12::1", "::ffff:127.0.0.1", "::ffff:10.0.0.1"]
PUBLIC = ["93.184.216.34", "172.32.0.1", "11.0.0.1", "2606:4700::1", "64:ff9b::5db8:d822"]


def check(scheme: str, *addresses: str, deny: tuple[str, ...] = ()) -> None:
    rules = EgressRules([ip_network(network) for network in deny])
    rules.check(scheme, "x.test", [ip_address(address) for address in addresses])


@pytest.mark.parametrize("address", NEVER)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_t03_some_addresses_are_never_dialled(scheme: str, address: str) -> None:
    with pytest.raises(UpstreamConnectError, match="never dialled") as caught:
        check(scheme, address)
    assert not caught.value.sent


@pytest.mark.parametrize("address", PRIVATE)
def test_t03_loopback_and_private_addresses_may_be_dialled_without_tls(address: str) -> None:
    check("http", address)
    check("https", address)


@pytest.mark.parametrize("address", PUBLIC)
def test_t03_public_addresses_are_dialled_with_tls_only(address: str) -> None:
    check("https", address)
    with pytest.raises(UpstreamConnectError, match="plain http"):
        check("http", address)


@pytest.mark.parametrize("address", ["10.1.2.3", "::ffff:10.1.2.3", "64:ff9b::a01:203"])
def test_t03_a_denied_network_is_denied_in_every_spelling(address: str) -> None:
    with pytest.raises(UpstreamConnectError, match="egress rules"):
        check("https", address, deny=("10.1.0.0/16",))


def test_t03_a_denied_ipv6_network_and_its_neighbour() -> None:
    with pytest.raises(UpstreamConnectError, match="egress rules"):
        check("https", "2606:4700::1", deny=("2606:4700::/32",))
    check("https", "2606:4701::1", deny=("2606:4700::/32",))


def test_t04_one_forbidden_address_condemns_the_name() -> None:
    with pytest.raises(UpstreamConnectError, match="metadata"):
        check("https", "93.184.216.34", "169.254.169.254")
    with pytest.raises(UpstreamConnectError, match="plain http"):
        check("http", "127.0.0.1", "93.184.216.34")
