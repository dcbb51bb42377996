"""A rotation of the master key that is killed with SIGKILL at each of 200 rows."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import pytest

from relay_gateway.catalog.envelope import EntityRow
from relay_gateway.storage import create_engine, migrate
from relay_gateway.testing.sealing import Fleet, Sealer

ROWS = 200


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_t63_a_rotation_killed_at_each_of_200_rows_loses_none(
    request: pytest.FixtureRequest, tmp_path: Path, database: str
) -> None:
    url = f"sqlite:///{tmp_path}/catalog.sqlite3"
    if database == "postgresql":
        url = request.getfixturevalue("postgres_url")
    await migrate(url)
    engine = create_engine(url)
    fleet = Fleet(engine, tmp_path)
    old = await fleet.instance("old")
    values = [f"sk-{number}" for number in range(ROWS)]
    rows = await old.add_keys(*values)
    both = await fleet.instance("new", "old")
    for done in range(1, ROWS):
        # In turn, so that a process may find the end of another one on either side of a commit.
        await _killed(url, *(("after", "1") if done % 2 else ("before", "2")))
        assert (await both.sealed_with(rows)).count(both.key_id) == done
        assert await _all_values(both, rows) == values
    assert (await both.rewrap().run()).rewrapped == 1
    assert await _all_values(await fleet.instance("new"), rows) == values
    assert (await both.audit.verify()).problem is None
    await engine.dispose()


async def _killed(url: str, moment: str, row: str) -> None:
    arguments = ("-m", "relay_gateway.testing.sealing", url, moment, row, "new", "old")
    process = await asyncio.create_subprocess_exec(sys.executable, *arguments)
    assert await process.wait() == -signal.SIGKILL


async def _all_values(sealer: Sealer, rows: list[EntityRow]) -> list[str]:
    return [await sealer.value_of(row) for row in rows]
