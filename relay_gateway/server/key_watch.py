"""Watches whether the master keys of this instance belong to its database, and says so if not."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from relay_gateway.control.master_key import MasterKeys
from relay_gateway.errors import StorageUnavailableError

CHECK_SECONDS = 60.0
RETRY_SECONDS = 1.0
"""How long to wait for a database that cannot be asked."""

_log = logging.getLogger(__name__)


class MasterKeyWatch:
    """``troubles`` are those of the last look, by secret backend."""

    def __init__(self, keys: MasterKeys) -> None:
        self._keys = keys
        self.troubles: Mapping[str, str] = {}

    async def run(self) -> None:
        """Looks again and again; the first look that finds the database proves the keys to it."""
        while True:
            looked = await self.look()
            await asyncio.sleep(CHECK_SECONDS if looked else RETRY_SECONDS)

    async def look(self) -> bool:
        """Looks once; ``False`` when the database could not be asked."""
        try:
            troubles = await self._keys.check()
        except StorageUnavailableError:
            return False
        except Exception:  # noqa: BLE001 - the next look tries again
            _log.exception("the master keys could not be held against the database")
            return True
        for backend, trouble in troubles.items():
            if self.troubles.get(backend) != trouble:
                _log.error("secret backend %r: %s", backend, trouble)
        for backend in self.troubles.keys() - troubles.keys():
            _log.info("secret backend %r: its master keys are in order again", backend)
        self.troubles = troubles
        return True
