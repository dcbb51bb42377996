"""The plugins as the last reload has made them effective, for a process that starts after it."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from relay_gateway.registry import Registry
from relay_gateway.server.plugin_reload import APPLIED
from relay_gateway.settings import Settings

_LENGTH_BYTES: Final = 8


class InForce:
    """Made before the first process is forked, and shared by all of them.

    A process that takes the place of another begins with what that one had in force, and neither
    with what was configured when the gateway was started nor with a file that nobody had read
    again. It is held in memory that has no name, because sections may contain credentials.
    """

    def __init__(self, settings: Settings, registry: Registry) -> None:
        self._settings = settings
        self._registry = registry
        self._memory = os.memfd_create("in-force")

    def keep(self, settings: Settings) -> None:
        """Notes what a reload in this process has made effective."""
        kept = json.dumps(settings.model_dump(include=set(APPLIED)), default=str).encode()
        with self._locked(fcntl.LOCK_EX):
            os.pwrite(self._memory, len(kept).to_bytes(_LENGTH_BYTES) + kept, 0)

    def now(self) -> tuple[Settings, Registry]:
        """What a process that starts now works with: settings, and the plugins that they enable."""
        with self._locked(fcntl.LOCK_SH):
            size = int.from_bytes(os.pread(self._memory, _LENGTH_BYTES, 0))
            kept = os.pread(self._memory, size, _LENGTH_BYTES)
        if not kept:
            return self._settings, self._registry
        read = Settings(**json.loads(kept))
        settings = self._settings.model_copy(update={name: getattr(read, name) for name in APPLIED})
        if settings.plugins.enabled == self._settings.plugins.enabled:
            return settings, self._registry
        return settings, Registry.discover(enabled=settings.plugins.enabled)

    @contextmanager
    def _locked(self, how: int) -> Iterator[None]:
        # The lock is the process's own: the kernel takes it from one that is killed.
        fcntl.lockf(self._memory, how)
        try:
            yield
        finally:
            fcntl.lockf(self._memory, fcntl.LOCK_UN)
