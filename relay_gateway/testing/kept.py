"""What the gateways of a data directory keep, for whoever reads or writes it beside them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from relay_gateway.plugin import LogQuery
from relay_gateway.registry import Registry
from relay_gateway.server.plugin_instances import configure_plugins
from relay_gateway.settings import Settings

MOST = 1000


@asynccontextmanager
async def kept_sink(data_dir: Path, database_url: str | None = None) -> AsyncIterator[Any]:
    """The database sink, open, of a gateway with this data and this database, the embedded one
    unless told."""
    url = database_url or f"sqlite:///{data_dir}/relay.sqlite3"
    settings = Settings(data_dir=data_dir, database_url=url)
    plugins = configure_plugins(settings, Registry.discover(), {})
    sink = plugins.usage_sink("database")
    await sink.aopen()
    try:
        yield sink
    finally:
        await sink.aclose()
        await plugins.aclose()


async def kept_records(data_dir: Path) -> list[dict[str, Any]]:
    """The newest usage records of the embedded database, at most 1000, as JSON shows them; for
    after the end of the gateway."""
    async with kept_sink(data_dir) as sink:
        page = await sink.query(LogQuery(limit=MOST))
    return [msgspec.to_builtins(record) for record in page.items]
