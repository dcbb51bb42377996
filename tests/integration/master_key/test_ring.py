"""Sealers with several, other and no master keys on one database."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import text

from relay_gateway.control.master_key import BackendKeys
from relay_gateway.errors import MasterKeyError, SecretDeniedError
from relay_gateway.storage import EntityChange
from relay_gateway.storage.audit import AuditQuery
from relay_gateway.testing.sealing import Fleet, Sealer


async def state_of(instance: Sealer) -> BackendKeys:
    (state,) = await instance.keys.status()
    return state


async def everything(fleet: Fleet) -> list[object]:
    """All rows of the tables that a wrong key must not touch."""
    async with fleet.engine.connect() as connection:
        found: list[object] = []
        for table in ("entities", "catalog_changes", "master_keys", "audit_records"):
            rows = await connection.execute(text(f"SELECT * FROM {table} ORDER BY 1, 2"))
            found += [tuple(map(str, row)) for row in rows]
        return found


async def test_t63_a_new_database_belongs_to_whoever_is_first(fleet: Fleet) -> None:
    first = await fleet.instance("a")
    assert await first.keys.check() == {}
    state = await state_of(first)
    assert (state.state, state.current_key_id) == ("good", first.key_id)
    assert [(key.key_id, key.state) for key in state.keys] == [(first.key_id, "in-force")]
    other = await fleet.instance("b")
    assert "do not belong to this database" in (await other.keys.check())["stored"]


async def test_t63_of_two_different_keys_at_once_only_one_is_first(fleet: Fleet) -> None:
    instances = [await fleet.instance(name, check=False) for name in "abcd"]
    troubles = await asyncio.gather(*(one.keys.check() for one in instances))
    assert sorted(len(trouble) for trouble in troubles) == [0, 1, 1, 1]


async def test_t63_a_wrong_key_writes_nothing_sealed_and_destroys_nothing(fleet: Fleet) -> None:
    right = await fleet.instance("right")
    row = await right.add_key("sk-1")
    wrong = await fleet.instance("wrong")
    before = await everything(fleet)
    state = await state_of(wrong)
    assert (state.state, state.unreadable) == ("mismatch", 1)
    with pytest.raises(MasterKeyError, match="nothing is sealed anew"):
        await wrong.rewrap().run()
    with pytest.raises(SecretDeniedError, match=right.key_id):
        await wrong.value_of(row)
    assert await everything(fleet) == before
    with pytest.raises(MasterKeyError, match="does not belong to this database"):
        await wrong.add_key("sk-2")
    assert await right.value_of(row) == "sk-1"
    # What is not sealed can be written, a value that is there already stays.
    change = EntityChange(display_name="Renamed", spec=row.spec, sealed=row.sealed)
    assert (await wrong.catalog.update("host key", row.id, change)).display_name == "Renamed"
    assert await right.value_of(row) == "sk-1"


async def test_t63_a_database_from_before_canaries_is_proven_by_what_is_sealed_in_it(
    fleet: Fleet,
) -> None:
    old = await fleet.instance("old", check=False)
    await old.add_key("sk-1")
    wrong = await fleet.instance("wrong")
    assert (await state_of(wrong)).state == "mismatch"
    assert (await state_of(await fleet.instance("new", "old"))).state == "good"


async def test_without_a_master_key_it_is_only_told_where_one_is_needed(fleet: Fleet) -> None:
    bare = await fleet.instance()
    assert await bare.keys.check() == {}
    await (await fleet.instance("a")).add_key("sk-1")
    assert "set RELAY_MASTER_KEY" in (await bare.keys.check())["stored"]
    with pytest.raises(MasterKeyError, match="no master key to rotate to"):
        await bare.rewrap().run()


async def test_t63_a_new_key_is_proven_by_an_old_one_beside_it(fleet: Fleet) -> None:
    old = await fleet.instance("old")
    row = await old.add_key("sk-1")
    both = await fleet.instance("new", "old")
    added = await both.add_key("sk-2")
    assert [await both.value_of(one) for one in (row, added)] == ["sk-1", "sk-2"]
    assert await both.sealed_with([row, added]) == [old.key_id, both.key_id]
    # An instance that has not been told of the new key cannot use what it seals, and says why.
    with pytest.raises(SecretDeniedError, match=both.key_id):
        await old.value_of(added)
    assert await old.value_of(row) == "sk-1"
    assert await old.sealed_with([await old.add_key("sk-3")]) == [old.key_id]


async def test_t63_a_canary_that_was_altered_or_moved_proves_nothing(fleet: Fleet) -> None:
    first = await fleet.instance("a")
    await first.add_key("sk-1")
    other = await fleet.instance("b")
    async with fleet.engine.begin() as connection:
        await connection.execute(text("UPDATE master_keys SET key_id = :id"), {"id": other.key_id})
    assert (await state_of(other)).state == "mismatch"
    assert (await state_of(first)).state == "mismatch"


async def test_t63_a_lost_key_can_be_given_up_and_comes_back(fleet: Fleet) -> None:
    lost = await fleet.instance("lost")
    row = await lost.add_key("sk-1")
    new = await fleet.instance("new")
    assert await new.keys.adopt() == [new.key_id]
    assert await new.keys.adopt() == []
    assert await new.keys.check() == {}
    added = await new.add_key("sk-2")
    report = await new.rewrap().run()
    assert (report.rewrapped, report.failed) == (0, 1)
    assert report.failures[0].slug == row.slug
    assert lost.key_id in report.failures[0].reason
    assert await lost.value_of(row) == "sk-1"
    again = await fleet.instance("new", "lost")
    assert (await again.rewrap().run()).rewrapped == 1
    assert [await new.value_of(one) for one in (row, added)] == ["sk-1", "sk-2"]


async def test_what_happens_to_keys_is_in_the_audit_log(fleet: Fleet) -> None:
    await fleet.instance("old")
    both = await fleet.instance("new", "old")
    await both.rewrap().run()
    found = await both.audit.page(AuditQuery(equal={"kind": "master key"}))
    actions = [(item.action, item.target, item.detail.get("why")) for item in reversed(found)]
    old_id = both.backend.key_ids()[1]
    assert actions == [
        ("add", old_id, "first"),
        ("add", both.key_id, "proven"),
        ("rewrap-begin", both.key_id, None),
        ("rewrap-end", both.key_id, None),
    ]
