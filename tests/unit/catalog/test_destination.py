"""Which changes send credentials somewhere else, and which do not."""

from __future__ import annotations

from typing import Any

import pytest

from relay_gateway.catalog.destination import redirections

BEFORE: dict[str, Any] = {"baseUrl": "https://api.acme.test/v1", "hostId": "a"}


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"baseUrl": "https://api.acme.test/v2"}, ()),
        ({"baseUrl": "https://API.acme.test:443"}, ()),
        ({"baseUrl": "https://api.acme.test.:443/"}, ()),
        ({"timeouts": {"connect": 1}}, ()),
        ({"tls": {"caFile": None, "verify": True}}, ()),
        ({"baseUrl": "http://api.acme.test/v1"}, ("baseUrl",)),
        ({"baseUrl": "https://api.acme.test:8443/v1"}, ("baseUrl",)),
        ({"baseUrl": "https://api.acme.test.evil.test/v1"}, ("baseUrl",)),
        ({"baseUrl": "https://[::1"}, ("baseUrl",)),
        ({"proxyUrl": "http://10.0.0.1:3128"}, ("proxyUrl",)),
        ({"tls": {"caFile": "/tmp/ca.pem"}}, ("tls",)),
        ({"baseUrl": "https://b.test", "proxyUrl": "http://c.test"}, ("baseUrl", "proxyUrl")),
    ],
)
def test_t08_the_place_is_origin_proxy_and_certificate_authority(
    change: dict[str, Any], fields: tuple[str, ...]
) -> None:
    assert redirections("host", BEFORE, {**BEFORE, **change}) == fields
    assert redirections("host", {**BEFORE, **change}, BEFORE) == fields


def test_t08_a_key_that_moves_to_another_host_goes_somewhere_else() -> None:
    assert redirections("host key", BEFORE, {**BEFORE, "hostId": "b"}) == ("hostId",)
    assert redirections("host key", BEFORE, {**BEFORE, "weight": 2}) == ()
    assert redirections("policy", BEFORE, {**BEFORE, "hostId": "b"}) == ()
