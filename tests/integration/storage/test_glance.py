"""Glances at a SQLite file: nothing is missed, and nothing is asked where nothing was written."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.storage import CatalogStore, NewEntity, create_engine, migrate
from relay_gateway.storage.changes import CatalogChanges
from relay_gateway.storage.engine import writing
from relay_gateway.storage.glance import Glance
from relay_gateway.testing.statements import statements

_WRITE = "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "a b#.db"


@pytest.fixture
async def engine(file: Path) -> AsyncIterator[AsyncEngine]:
    await migrate(f"sqlite:///{file}")
    engine = create_engine(f"sqlite:///{file}")
    yield engine
    await engine.dispose()


async def by_another_process(file: Path, script: str) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _WRITE, file, script)
    assert await process.wait() == 0


def provider(name: str) -> NewEntity:
    return NewEntity(kind="provider", display_name=name, spec={}, labels={})


async def test_the_revision_is_asked_for_only_after_something_was_written(
    engine: AsyncEngine,
) -> None:
    changes, store = CatalogChanges(engine), CatalogStore(engine)
    assert await changes.revision() == 0
    with statements(engine) as asked:
        assert [await changes.revision() for _ in range(5)] == [0] * 5
    assert asked == []
    for expected in (1, 2, 3):
        await store.create(provider(f"p{expected}"))
        assert [await changes.revision() for _ in range(3)] == [expected] * 3
    await store.write_all([provider("p4")])
    assert await changes.revision() == 4


async def test_what_another_process_writes_is_seen(engine: AsyncEngine, file: Path) -> None:
    changes = CatalogChanges(engine)
    assert await changes.revision() == 0
    for expected in (7, 8):
        await by_another_process(file, f"UPDATE catalog_revision SET revision = {expected}")
        assert await changes.revision() == expected
    # In one that does not share the log either.
    await by_another_process(
        file, "PRAGMA wal_checkpoint(TRUNCATE); UPDATE catalog_revision SET revision = 9"
    )
    assert await changes.revision() == 9


async def test_a_write_that_is_not_committed_is_none(engine: AsyncEngine) -> None:
    glance = Glance(engine)
    before = glance.version()
    assert before is not None
    async with writing(engine) as connection:
        await connection.execute(text("UPDATE catalog_revision SET revision = 5"))
        assert glance.version() == before
    assert glance.version() != before


async def test_after_a_failure_the_revision_is_read_from_the_database(
    engine: AsyncEngine, file: Path
) -> None:
    changes = CatalogChanges(engine)
    assert await changes.revision() == 0
    await by_another_process(file, "ALTER TABLE catalog_revision RENAME TO away")
    for _ in range(2):
        with pytest.raises(StorageUnavailableError):
            await changes.revision()
    await by_another_process(
        file,
        "ALTER TABLE away RENAME TO catalog_revision; UPDATE catalog_revision SET revision = 3",
    )
    assert await changes.revision() == 3


async def test_numbers_of_one_connection_are_not_compared_with_those_of_the_next(
    engine: AsyncEngine, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = iter([5, None, 5])
    monkeypatch.setattr(Glance, "version", lambda _self: next(numbers))
    changes = CatalogChanges(engine)
    assert await changes.revision() == 0
    await by_another_process(
        file,
        "UPDATE catalog_revision SET revision = 3; ALTER TABLE catalog_revision RENAME TO away",
    )
    with pytest.raises(StorageUnavailableError):
        await changes.revision()
    await by_another_process(file, "ALTER TABLE away RENAME TO catalog_revision")
    assert await changes.revision() == 3


async def test_a_locked_file_is_not_waited_for_and_nothing_is_missed(tmp_path: Path) -> None:
    file = tmp_path / "plain.db"  # without a log, where who writes keeps readers out
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("CREATE TABLE catalog_revision (revision)")
    engine = create_engine(f"sqlite:///{file}")
    glance = Glance(engine)
    first = glance.version()
    assert first is not None
    other.execute("BEGIN EXCLUSIVE")
    other.execute("INSERT INTO catalog_revision VALUES (1)")
    loop = asyncio.get_running_loop()
    began = loop.time()
    assert glance.version() is None
    assert loop.time() - began < 0.5
    other.execute("COMMIT")
    assert isinstance(glance.version(), int)
    await engine.dispose()
    other.close()


async def test_an_absent_file_is_not_made(tmp_path: Path) -> None:
    engine = create_engine(f"sqlite:///{tmp_path / 'absent.db'}")
    assert Glance(engine).version() is None
    assert list(tmp_path.iterdir()) == []
    await engine.dispose()


async def test_nothing_is_left_beside_the_file_of_an_engine_that_was_disposed_of(
    engine: AsyncEngine, file: Path
) -> None:
    glance, store = Glance(engine), CatalogStore(engine)
    await store.create(provider("p"))
    assert glance.version() is not None
    await engine.dispose()
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert Glance(engine).version() is not None
