"""Rotating the master key: resumable at every row, safe beside writes and other rotations."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import event

from relay_gateway.control.host_keys import HostKeyRules
from relay_gateway.control.rewrap import RewrapReport
from relay_gateway.control.rules import no_statuses
from relay_gateway.errors import MasterKeyError, SecretDeniedError
from relay_gateway.storage import EntityChange
from relay_gateway.testing.sealing import Fleet, Sealer

ROWS = 20


class CrashError(Exception):
    """Stands for the end of the process."""


async def test_t63_a_rotation_seals_everything_with_the_new_key(fleet: Fleet) -> None:
    old = await fleet.instance("old")
    rows = await old.add_keys(*(f"sk-{number}" for number in range(5)))
    both = await fleet.instance("new", "old")
    seen: list[int] = []
    report = await both.rewrap(batch=2).run(lambda report: seen.append(report.rewrapped))
    assert seen == [2, 4, 5]
    assert (report.total, report.rewrapped, report.failed) == (5, 5, 0)
    assert set(await both.sealed_with(rows)) == {both.key_id}
    alone = await fleet.instance("new")
    assert await alone.keys.check() == {}
    assert [await alone.value_of(row) for row in rows] == [f"sk-{n}" for n in range(5)]
    (state,) = await both.keys.status()
    assert (state.rewrap.state, state.rewrap.rewrapped, state.remaining) == ("finished", 5, 0)
    assert {key.key_id: (key.references, key.state, key.removable) for key in state.keys} == {
        both.key_id: (5, "in-force", False),
        old.key_id: (0, "retired", True),
    }
    assert (await both.rewrap().run()).total == 0


async def test_t61_a_rotation_is_no_new_value(fleet: Fleet) -> None:
    old = await fleet.instance("old")
    row = await old.add_key("sk-1")
    both = await fleet.instance("new", "old")
    await both.rewrap().run()
    after = await both.catalog.get("host key", row.id)
    assert after.sealed["generation"] == row.sealed["generation"]
    assert after.sealed["valueFrom"]["updatedAt"] == row.sealed["valueFrom"]["updatedAt"]
    assert after.version == row.version + 1
    assert await both.catalog.revision() == 3


@pytest.mark.parametrize("after_commit", [False, True])
async def test_t63_a_rotation_broken_off_at_each_row_loses_none_and_goes_on(
    fleet: Fleet, after_commit: bool
) -> None:
    old = await fleet.instance("old")
    rows = await old.add_keys(*(f"sk-{number}" for number in range(ROWS)))
    both = await fleet.instance("new", "old")
    values = [f"sk-{number}" for number in range(ROWS)]
    for done in range(1, ROWS):
        with pytest.raises(CrashError):
            await (_crash_after(both) if after_commit else _crash_before(fleet, both))
        assert (await both.sealed_with(rows)).count(both.key_id) == done
        assert [await both.value_of(row) for row in rows] == values
        (state,) = await both.keys.status()
        assert (state.rewrap.state, state.remaining) == ("unfinished", ROWS - done)
    assert (await both.rewrap().run()).rewrapped == 1
    assert set(await both.sealed_with(rows)) == {both.key_id}
    (state,) = await both.keys.status()
    assert (state.rewrap.state, state.remaining) == ("finished", 0)
    assert (await both.audit.verify()).problem is None


async def _crash_after(instance: Sealer) -> None:
    """Rotates until one row is sealed anew, and breaks off after its transaction."""

    def stop(report: RewrapReport) -> None:
        raise CrashError

    await instance.rewrap(batch=1).run(stop)


async def _crash_before(fleet: Fleet, instance: Sealer) -> None:
    """Rotates until one row is sealed anew, and breaks off before the commit of the next one."""
    written = 0

    def see(_connection: object, _cursor: object, statement: str, *_rest: object) -> None:
        nonlocal written
        written += statement.startswith("UPDATE entities")

    def refuse(_connection: object) -> None:
        if written == 2:
            raise CrashError

    engine = fleet.engine.sync_engine
    event.listen(engine, "before_cursor_execute", see)
    event.listen(engine, "commit", refuse)
    try:
        await instance.rewrap(batch=1).run()
    finally:
        event.remove(engine, "before_cursor_execute", see)
        event.remove(engine, "commit", refuse)


async def test_t63_two_rotations_at_once_share_the_work(fleet: Fleet) -> None:
    old = await fleet.instance("old")
    rows = await old.add_keys(*(f"sk-{number}" for number in range(12)))
    runners = [await fleet.instance("new", "old") for _ in range(3)]
    reports = await asyncio.gather(*(one.rewrap(batch=2).run() for one in runners))
    assert sum(report.rewrapped for report in reports) == len(rows)
    assert {report.failed for report in reports} == {0}
    versions = [(await old.catalog.get("host key", row.id)).version for row in rows]
    assert versions == [row.version + 1 for row in rows]
    alone = await fleet.instance("new")
    assert [await alone.value_of(row) for row in rows] == [f"sk-{n}" for n in range(12)]


async def test_t63_a_value_written_meanwhile_is_not_lost(fleet: Fleet) -> None:
    old = await fleet.instance("old")
    rows = await old.add_keys(*(f"sk-{number}" for number in range(6)))
    both = await fleet.instance("new", "old")
    rules = HostKeyRules(both.backends, no_statuses)
    rewrap = both.rewrap(batch=6)
    resealed = rewrap._resealed
    raced = iter(rows)

    async def write_first(row: object, *rest: object) -> object:
        update = await resealed(row, *rest)  # type: ignore[arg-type]
        target = next(raced, None)
        if target is not None:
            current = await both.catalog.get("host key", target.id)
            body = {"valueFrom": {"kind": "stored", "value": f"new-{target.slug}"}}
            prepared = await rules.rotate(body, current)
            change = EntityChange(display_name="Key", spec=prepared.spec, sealed=prepared.sealed)
            await both.catalog.update("host key", target.id, change)
        return update

    rewrap._resealed = write_first  # type: ignore[method-assign,assignment]
    report = await rewrap.run()
    assert report.failed == 0
    assert [await both.value_of(row) for row in rows] == [f"new-{row.slug}" for row in rows]
    assert set(await both.sealed_with(rows)) == {both.key_id}


async def test_t63_from_the_beginning_of_a_rotation_nothing_joins_the_old_key(
    fleet: Fleet,
) -> None:
    old = await fleet.instance("old")
    row = await old.add_key("sk-1")
    both = await fleet.instance("new", "old")
    await both.masters.begin_rewrap("stored", both.key_id)
    with pytest.raises(MasterKeyError, match="retired"):
        await old.add_key("sk-2")
    last = await fleet.instance("old", "new")
    assert "was retired" in (await last.keys.check())["stored"]
    with pytest.raises(MasterKeyError, match=both.key_id):
        await last.add_key("sk-3")
    # The value that an update leaves alone is no new one.
    change = EntityChange(display_name="Renamed", spec=row.spec, sealed=row.sealed)
    await last.catalog.update("host key", row.id, change)
    assert await last.value_of(row) == "sk-1"


async def test_t63_an_old_value_cannot_be_put_back_after_the_rotation(fleet: Fleet) -> None:
    old = await fleet.instance("old")
    row = await old.add_key("sk-1")
    both = await fleet.instance("new", "old")
    await both.rewrap().run()
    change = EntityChange(display_name="Key", spec=row.spec, sealed=row.sealed)
    with pytest.raises(MasterKeyError, match="retired"):
        await old.catalog.update("host key", row.id, change)
    assert await both.sealed_with([row]) == [both.key_id]


async def test_a_rotation_back_takes_the_old_key_into_use_again(fleet: Fleet) -> None:
    old = await fleet.instance("old")
    row = await old.add_key("sk-1")
    await (await fleet.instance("new", "old")).rewrap().run()
    back = await fleet.instance("old", "new")
    assert (await back.rewrap().run()).rewrapped == 1
    assert await back.keys.check() == {}
    assert await old.value_of(row) == "sk-1"
    assert await old.sealed_with([await old.add_key("sk-2")]) == [old.key_id]


async def test_t60_an_altered_value_is_reported_and_left_as_it_is(fleet: Fleet) -> None:
    old = await fleet.instance("old")
    rows = await old.add_keys(*(f"sk-{number}" for number in range(3)))
    moved = EntityChange(display_name="Key", spec=rows[1].spec, sealed=rows[0].sealed)
    altered = await old.catalog.update("host key", rows[1].id, moved)
    both = await fleet.instance("new", "old")
    report = await both.rewrap().run()
    assert (report.rewrapped, report.failed) == (2, 1)
    assert report.failures[0].id == rows[1].id
    assert "undecryptable" in report.failures[0].reason
    assert await both.catalog.get("host key", rows[1].id) == altered
    with pytest.raises(SecretDeniedError, match="undecryptable"):
        await both.value_of(rows[1])
    (state,) = await both.keys.status()
    assert [key.removable for key in state.keys if key.key_id == old.key_id] == [False]
