"""A migrated database, SQLite or PostgreSQL, for instances with different master keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.testing.sealing import Fleet


@pytest.fixture
def fleet(engine: AsyncEngine, tmp_path: Path) -> Fleet:
    return Fleet(engine, tmp_path)
