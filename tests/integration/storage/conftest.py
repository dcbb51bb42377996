"""A migrated catalog store on each database."""

from __future__ import annotations

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.storage import CatalogStore


@pytest.fixture
def store(engine: AsyncEngine) -> CatalogStore:
    return CatalogStore(engine)
