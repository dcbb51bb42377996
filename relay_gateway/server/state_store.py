"""The state store of limits that ``RELAY_STATE_URL`` chooses, and what is built on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from relay_gateway.errors import SettingsError
from relay_gateway.limits.choose import in_memory, limiter_over
from relay_gateway.limits.guarded_store import Report
from relay_gateway.limits.limiter import Limiter
from relay_gateway.limits.shared_store import SharedStore
from relay_gateway.plugin import PluginConfig, PluginContext, StateStore
from relay_gateway.registry import Plugins
from relay_gateway.settings import Settings

MEMORY = "memory"
DIRECTORY = "limits"
"""Where the workers of one instance count together, below the data directory."""
SPARE_ROWS = 8
"""Besides two for each worker, one that ends and one that takes its place."""

Sections = dict[str, dict[str, dict[str, Any]]]


def with_state_store(settings: Settings, stores: Mapping[str, type[StateStore[Any]]]) -> Sections:
    """The plugins' sections, with the URL in that of the state store it chooses.

    Raises :class:`SettingsError` when no installed one has its scheme.
    """
    sections = settings.plugin_sections()
    name = _chosen(settings, stores)
    if name is None:
        return sections
    own = sections["state_stores"].get(name, {})
    stated = {**sections["state_stores"], name: {**own, "url": settings.state_url}}
    return {**sections, "state_stores": stated}


def state_store(settings: Settings, plugins: Plugins) -> StateStore[Any] | None:
    """The store that instances share, not opened yet; ``None`` where each counts for itself."""
    scheme = _scheme(settings)
    return None if scheme == MEMORY else plugins.state_store_for(scheme)


@asynccontextmanager
async def open_limiter(
    settings: Settings, store: StateStore[Any] | None, report: Report | None = None
) -> AsyncIterator[Limiter]:
    """Limits that ``store`` counts, or the workers of this instance; ``report`` is told of failures
    of ``store``."""
    own: SharedStore | None = None
    if store is not None:
        limiter = limiter_over(store, report=report)
    elif settings.workers == 1:
        limiter = in_memory()
    else:
        own = _shared(settings)
        await own.aopen()
        limiter = limiter_over(own)
    try:
        yield limiter
    finally:
        await limiter.aclose()
        if own is not None:
            await own.aclose()


def _chosen(settings: Settings, stores: Mapping[str, type[StateStore[Any]]]) -> str | None:
    scheme = _scheme(settings)
    if scheme == MEMORY:
        return None
    for name, store in stores.items():
        if scheme in store.schemes:
            return name
    known = sorted({MEMORY, *(one for store in stores.values() for one in store.schemes)})
    raise SettingsError(
        f"state_url: no installed state store has the scheme {scheme!r}; there are "
        f"{', '.join(known)}: install the plugin for it, or change RELAY_STATE_URL"
    )


def _scheme(settings: Settings) -> str:
    return settings.state_url.partition("://")[0]


def _shared(settings: Settings) -> SharedStore:
    context = PluginContext(plugin=MEMORY, data_dir=settings.data_dir, database_url="")
    rows = 2 * settings.workers + SPARE_ROWS
    directory = settings.data_dir / DIRECTORY
    return SharedStore(PluginConfig(), context, directory=directory, rows=rows)
