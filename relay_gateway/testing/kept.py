"""What the gateways of a data directory have kept, read after their end as they would read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from relay_gateway.plugin import LogQuery, UsageReader
from relay_gateway.registry import Registry
from relay_gateway.server.plugin_instances import configure_plugins
from relay_gateway.settings import Settings

MOST = 1000


async def kept_records(data_dir: Path) -> list[dict[str, Any]]:
    """The newest usage records of the embedded database, at most 1000, as JSON shows them."""
    settings = Settings(data_dir=data_dir, database_url=f"sqlite:///{data_dir}/relay.sqlite3")
    plugins = configure_plugins(settings, Registry.discover(), {})
    sink = plugins.usage_sink("database")
    assert isinstance(sink, UsageReader)
    await sink.aopen()
    try:
        page = await sink.query(LogQuery(limit=MOST))
        return [msgspec.to_builtins(record) for record in page.items]
    finally:
        await sink.aclose()
        await plugins.aclose()
