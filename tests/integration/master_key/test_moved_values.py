"""What is sealed opens in its own row and field, and nowhere else; rotations take it along."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from relay_gateway.errors import SecretDeniedError
from relay_gateway.testing.sealing import Fleet

KEYS = [f"sk-{number}" for number in range(4)]
LOGINS = [f"relay:password-{number}" for number in range(3)]


async def test_r26_every_value_moved_to_every_other_place_is_refused(fleet: Fleet) -> None:
    instance = await fleet.instance("key")
    rows = [*await instance.add_keys(*KEYS), *await instance.add_proxied_hosts(*LOGINS)]
    assert [await instance.open_as(row, row) for row in rows] == [*KEYS, *LOGINS]
    for cell, place in itertools.permutations(rows, 2):
        with pytest.raises(SecretDeniedError, match="undecryptable"):
            await instance.open_as(cell, place)
    for row in rows:
        later = msgspec.structs.replace(row, sealed={**row.sealed, "generation": 2})
        with pytest.raises(SecretDeniedError, match="undecryptable"):
            await instance.open_as(row, later)


async def test_t63_a_rotation_seals_logins_at_proxies_anew_too(fleet: Fleet) -> None:
    old = await fleet.instance("old")
    keys, hosts = await old.add_keys(*KEYS), await old.add_proxied_hosts(*LOGINS)
    both = await fleet.instance("new", "old")
    report = await both.rewrap(batch=2).run()
    assert (report.total, report.rewrapped, report.failed) == (len(KEYS) + len(LOGINS), 7, 0)
    alone = await fleet.instance("new")
    for row, value in zip([*keys, *hosts], [*KEYS, *LOGINS], strict=True):
        current = await alone.catalog.get(row.kind, row.id)
        assert await alone.open_as(current, current) == value
        with pytest.raises(SecretDeniedError):
            await alone.open_as(row, row)
    for host in hosts:
        shown = (await alone.catalog.get("host", host.id)).spec["proxyCredential"]
        assert shown["keyId"] == alone.key_id
