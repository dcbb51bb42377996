"""Plugins that hold up the event loop, named with what they were doing."""

from __future__ import annotations

import logging
from collections import Counter

from relay_gateway.observe.stall_watch import Stall
from relay_gateway.registry import Plugins

CORE = ("-", "-")
"""Kind and name of what is no plugin's."""

_log = logging.getLogger(__name__)


class Stalls:
    """How often the event loop was held up, by kind and name of the plugin whose code it was in."""

    def __init__(self, plugins: Plugins) -> None:
        self._plugins = plugins
        self.counts: Counter[tuple[str, str]] = Counter({CORE: 0})

    def found(self, stall: Stall) -> None:
        """Counts a stall and logs its stack. Called in a thread of its own."""
        owners = self._owners(stall)
        self.counts.update(owners or [CORE])
        names = " or ".join(f"{kind} {name!r}" for kind, name in owners)
        _log.error(
            "the event loop is held up, for %.1f s so far, by %s; every request of this process "
            "waits:\n%s",
            stall.seconds,
            names or "code of no plugin",
            stall.stack,
        )

    def _owners(self, stall: Stall) -> list[tuple[str, str]]:
        for module in dict.fromkeys(stall.modules):
            owners = self._plugins.owners_of(module)
            if owners:
                return [(str(kind), name) for kind, name in owners]
        return []
