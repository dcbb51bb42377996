"""Bringing a database to the schema of this version."""

from __future__ import annotations

import asyncio
import sqlite3
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.errors import ConfigurationError, StorageUnavailableError
from relay_gateway.storage.engine import create_engine, storage_failures, writing
from relay_gateway.storage.migrations import HEAD

if TYPE_CHECKING:
    from alembic.config import Config

ADVISORY_LOCK = 0x52454C4159
"""Key of the PostgreSQL lock that lets one process migrate at a time."""
WAL_ATTEMPTS = 100
WAL_PAUSE = 0.05


async def migrate(database_url: str) -> str:
    """Applies all missing migrations in one transaction and returns the schema's revision.

    Changes nothing in an up-to-date database, and may run in several processes at once: one
    migrates, the others wait. Raises :class:`StorageUnavailableError`, and
    :class:`ConfigurationError` for a database of a newer version.
    """
    engine = create_engine(database_url)
    try:
        if engine.dialect.name == "sqlite":
            await _enable_wal(engine)
        async with writing(engine) as connection:
            if engine.dialect.name == "postgresql":
                await connection.execute(
                    text("SELECT pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK}
                )
            return await connection.run_sync(_upgrade)
    finally:
        await engine.dispose()


async def _enable_wal(engine: AsyncEngine) -> None:
    """Switches the file to write-ahead logging, for good. SQLite does not wait here by itself."""
    with storage_failures():
        async with engine.connect() as connection:
            # Past SQLAlchemy, which would begin a transaction: the mode cannot change inside one.
            raw: Any = (await connection.get_raw_connection()).driver_connection
            for attempt in range(WAL_ATTEMPTS):
                try:
                    await raw.execute_fetchall("PRAGMA journal_mode = WAL")
                except sqlite3.OperationalError as error:
                    if attempt == WAL_ATTEMPTS - 1:
                        raise StorageUnavailableError(
                            "the database file is locked by another process; try again"
                        ) from error
                    await asyncio.sleep(WAL_PAUSE)
                else:
                    return


def _upgrade(connection: Connection) -> str:
    if _revision(connection) == HEAD:
        return HEAD
    # Only now: importing Alembic takes a tenth of a second, and 9 MiB for as long as the process.
    from alembic import command
    from alembic.runtime.migration import MigrationContext
    from alembic.util.exc import CommandError

    config = _config()
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError as error:
        raise ConfigurationError(
            "the database has the schema of a newer version of the gateway; "
            "run that version, or point this one at another database"
        ) from error
    return str(MigrationContext.configure(connection).get_current_revision())


def _revision(connection: Connection) -> str | None:
    """What the database has; ``None`` for a new one."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: str | None = connection.scalar(text("SELECT version_num FROM alembic_version"))
    return found


def _config() -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", "relay_gateway.storage:migrations")
    config.set_main_option("path_separator", "os")
    return config
