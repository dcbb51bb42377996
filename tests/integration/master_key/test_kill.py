"""A rotation that is killed with SIGKILL; every boundary of 200 rows is in the long runs."""

from __future__ import annotations

import asyncio
import signal
import sys

import pytest

from relay_gateway.testing.sealing import Fleet


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_t63_a_killed_rotation_loses_nothing_and_goes_on(
    fleet: Fleet, database_url: str, moment: str
) -> None:
    old = await fleet.instance("old")
    values = [f"sk-{number}" for number in range(6)]
    rows = await old.add_keys(*values)
    arguments = ("-m", "relay_gateway.testing.sealing", database_url, moment, "3", "new", "old")
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments)
    assert await process.wait() == -signal.SIGKILL
    both = await fleet.instance("new", "old")
    done = 3 if moment == "after" else 2
    assert (await both.sealed_with(rows)).count(both.key_id) == done
    assert [await both.value_of(row) for row in rows] == values
    report = await both.rewrap().run()
    assert (report.rewrapped, report.failed) == (len(rows) - done, 0)
    alone = await fleet.instance("new")
    assert [await alone.value_of(row) for row in rows] == values
    assert (await both.audit.verify()).problem is None
