"""A control plane whose snapshot follows every write, as in a gateway."""

from __future__ import annotations

from relay_gateway.catalog.build import SnapshotBuilder
from relay_gateway.control import ControlServices, ReloadReport


def follow_writes(services: ControlServices) -> None:
    """Builds the snapshot anew after each write, with the plugins that ``services`` has now."""
    builder = SnapshotBuilder(services.providers, services.secret_backends)

    async def refresh() -> ReloadReport:
        rows = await services.store.load()
        services.live.swap(builder.load(rows.revision, rows.rows, rows.settings))
        return ReloadReport(rows.revision, len(rows.rows), 1.0)

    services.refresh = refresh
