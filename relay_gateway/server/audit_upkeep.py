"""Keeps the audit log as long as the settings say, and its checkpoint signed with a current key."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy.ext.asyncio import AsyncEngine

from relay_gateway.errors import StorageUnavailableError
from relay_gateway.plugin import Clock
from relay_gateway.secret import Secret
from relay_gateway.security.signing import Signer
from relay_gateway.storage.audit_retention import AuditRetention

PURPOSE = b"relay-gateway: audit checkpoint, version 1"
EVERY_SECONDS = 3600.0
RETRY_SECONDS = 5.0

_log = logging.getLogger(__name__)


def checkpoint_signer(master_keys: Sequence[Secret]) -> Signer:
    """Signs and knows checkpoints of the audit log."""
    return Signer(master_keys, PURPOSE)


class AuditUpkeep:
    """Prunes what is older than ``days``, if that is not 0. Without a master key it prunes nothing,
    because what is left could not be verified."""

    def __init__(
        self, engine: AsyncEngine, master_keys: Sequence[Secret], days: int, clock: Clock
    ) -> None:
        self._signer = checkpoint_signer(master_keys)
        self._retention = AuditRetention(engine, self._signer)
        self._days = days
        self._clock = clock

    async def run(self) -> None:
        """Does it now and every hour."""
        if not self._signer.possible:
            if self._days:
                _log.warning("audit_retention_days is not obeyed: there is no master key to sign "
                             "what the audit log begins with; set RELAY_MASTER_KEY")  # fmt: skip
            return
        while True:
            done = await self._attempt()
            await asyncio.sleep(EVERY_SECONDS if done else RETRY_SECONDS)

    async def tidy(self) -> int:
        """Does it once; how many records went."""
        await self._retention.renew_signature()
        if not self._days:
            return 0
        moment = datetime.fromtimestamp(self._clock.time(), UTC) - timedelta(days=self._days)
        before = moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
        pruned = await self._retention.prune(before)
        if pruned:
            _log.info("%d records older than %d days left the audit log", pruned, self._days)
        return pruned

    async def _attempt(self) -> bool:
        try:
            await self.tidy()
        except StorageUnavailableError:
            return False
        except Exception:  # noqa: BLE001 - the next hour tries again
            _log.exception("the audit log could not be pruned")
        return True
