from __future__ import annotations

import asyncio
import sys
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.errors import ConfigurationError
from relay_gateway.storage import CatalogStore, NewEntity, migrate
from relay_gateway.storage.migrate import _config
from relay_gateway.storage.migrations import HEAD
from relay_gateway.storage.tables import metadata

PROGRAM = "import asyncio, sys; from relay_gateway.storage import migrate; "
PROGRAM += "print(asyncio.run(migrate(sys.argv[1])))"


def differences(connection: Connection) -> list[Any]:
    return list(compare_metadata(MigrationContext.configure(connection), metadata))


async def test_the_migrated_schema_is_that_of_the_tables(engine: AsyncEngine) -> None:
    async with engine.connect() as connection:
        assert await connection.run_sync(differences) == []


def test_the_newest_revision_is_the_one_that_is_known_without_alembic() -> None:
    assert ScriptDirectory.from_config(_config()).get_heads() == [HEAD]


async def test_migrating_again_changes_nothing(database_url: str, store: CatalogStore) -> None:
    await store.create(NewEntity(kind="provider", display_name="Acme", spec={}))
    assert await migrate(database_url) == await migrate(database_url) == HEAD
    assert await store.revision() == 1


async def test_processes_that_start_at_once_migrate_once(database_url: str) -> None:
    processes = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, database_url, stdout=asyncio.subprocess.PIPE
        )
        for _ in range(3)
    ]
    outputs = await asyncio.gather(*(process.communicate() for process in processes))
    assert [process.returncode for process in processes] == [0, 0, 0]
    assert {output.strip() for output, _ in outputs} == {HEAD.encode()}


async def test_tasks_that_start_at_once_migrate_once(database_url: str) -> None:
    assert await asyncio.gather(*(migrate(database_url) for _ in range(6))) == [HEAD] * 6


async def test_f14_the_schema_of_a_newer_version_is_refused(
    database_url: str, engine: AsyncEngine
) -> None:
    async with engine.begin() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(ConfigurationError, match="newer version"):
        await migrate(database_url)
