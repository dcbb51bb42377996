"""What is installed goes into the audit log, once for each start of a gateway."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution
from itertools import groupby
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.errors import RelayError
from relay_gateway.registry import PluginInfo
from relay_gateway.registry.digest import digest_of
from relay_gateway.storage import AuditLog
from relay_gateway.storage.audit import AuditEvent

RETRY_SECONDS = 5.0
TRIES = 720
"""How often it is tried to write it down: for an hour."""

_log = logging.getLogger(__name__)


async def record_inventory(engine: AsyncEngine, inventory: Sequence[PluginInfo]) -> None:
    """Writes down ``inventory`` with the digest of each distribution, when the database can be
    asked."""
    listed = await asyncio.to_thread(lambda: list(distributions_of(inventory)))
    event = AuditEvent(action="start", kind="plugins", detail={"distributions": listed})
    for _ in range(TRIES):
        try:
            await AuditLog(engine).record(event)
        except RelayError:
            await asyncio.sleep(RETRY_SECONDS)
        else:
            return
    _log.error("the inventory of plugins could not be written into the audit log")


def distributions_of(inventory: Sequence[PluginInfo]) -> Iterator[dict[str, Any]]:
    """Each distribution with its version, its digest and its plugins with their states."""
    ordered = sorted(inventory, key=lambda info: (info.distribution, info.version))
    for (name, version), infos in groupby(ordered, lambda one: (one.distribution, one.version)):
        plugins = [f"{info.kind} {info.name}: {info.state}" for info in infos]
        yield {
            "distribution": name,
            "version": version,
            "digest": _digest(name),
            "plugins": plugins,
        }


def _digest(name: str) -> str | None:
    try:
        return digest_of(distribution(name))
    except PackageNotFoundError:
        return None
