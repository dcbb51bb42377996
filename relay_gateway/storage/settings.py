"""Settings that are changed while the gateway runs: every state of every section."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from sqlalchemy import func, insert, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from relay_gateway.errors import VersionConflictError
from relay_gateway.storage.audit import AuditEvent, acting, record
from relay_gateway.storage.engine import reading, writing
from relay_gateway.storage.revision import announce, next_revision
from relay_gateway.storage.rows import timestamp
from relay_gateway.storage.tables import settings_versions

KIND = "settings"
HISTORY_LIMIT = 100
Stored = Mapping[str, Any]


class SectionVersion(msgspec.Struct, frozen=True, kw_only=True):
    """A section as it was from one change to the next; version 0 is one that nobody changed."""

    section: str
    version: int = 0
    value: dict[str, Any] = {}
    changed_at: str | None = None
    changed_by: str | None = None
    revision: int | None = None


class SettingsStore:
    """Sections in the database.

    Every method raises :class:`StorageUnavailableError` when the database cannot be asked.
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    async def all(self) -> dict[str, SectionVersion]:
        """The current state of every section that was ever changed, by name."""
        async with reading(self._engine) as connection:
            return await _current(connection)

    async def history(self, section: str) -> list[SectionVersion]:
        """The newest 100 states of a section, newest first."""
        statement = select(settings_versions).where(settings_versions.c.section == section)
        statement = statement.order_by(settings_versions.c.version.desc()).limit(HISTORY_LIMIT)
        async with reading(self._engine) as connection:
            rows = await connection.execute(statement)
            return [SectionVersion(**row) for row in rows.mappings()]

    async def change(
        self,
        section: str,
        merge: Callable[[Stored], dict[str, Any]],
        *,
        expected_version: int | None = None,
        dry_run: bool = False,
    ) -> SectionVersion:
        """Stores what ``merge`` makes of the stored fields, as a write of the catalog; with
        ``dry_run`` nothing is stored, and the answer is the same.

        Raises :class:`VersionConflictError` and whatever ``merge`` raises; nothing is then changed.
        """
        async with writing(self._engine) as connection:
            revision = await next_revision(connection)
            current = (await _current(connection)).get(section, SectionVersion(section=section))
            if expected_version is not None and expected_version != current.version:
                raise VersionConflictError(
                    KIND, section, expected=expected_version, current=current.version
                )
            changed = SectionVersion(
                section=section,
                version=current.version + 1,
                value=merge(current.value),
                changed_at=timestamp(),
                changed_by=acting.get().name,
                revision=revision,
            )
            await connection.execute(
                insert(settings_versions).values(**msgspec.structs.asdict(changed))
            )
            await record(connection, _event(current, changed))
            if dry_run:
                await connection.rollback()
            else:
                await announce(connection, revision)
            return changed


async def stored_settings(connection: AsyncConnection) -> dict[str, Stored]:
    """The fields that somebody set, by section."""
    return {name: state.value for name, state in (await _current(connection)).items()}


async def _current(connection: AsyncConnection) -> dict[str, SectionVersion]:
    columns = settings_versions.c
    newest = select(columns.section, func.max(columns.version)).group_by(columns.section)
    rows = await connection.execute(
        select(settings_versions).where(tuple_(columns.section, columns.version).in_(newest))
    )
    return {row["section"]: SectionVersion(**row) for row in rows.mappings()}


def _event(before: SectionVersion, after: SectionVersion) -> AuditEvent:
    return AuditEvent(
        action="update",
        kind=KIND,
        target=after.section,
        slug=after.section,
        revision=after.revision,
        before=before.value,
        after=after.value,
    )
