"""Wrong admin tokens: recorded without filling the audit log, and slowed down.

The first is recorded at once; what follows is counted, and recorded once a minute for each address.
A right token is always admitted: it has 256 bits, which nobody guesses, and whoever shares an
address with a program that has an outdated token must not be locked out by it.
"""

from __future__ import annotations

import asyncio
from collections import Counter

from relay_gateway.control.problems import RefusedError
from relay_gateway.control.unauthenticated import UnauthenticatedError
from relay_gateway.errors import StorageUnavailableError
from relay_gateway.security.throttle import network_of
from relay_gateway.storage.audit import Actor, AuditEvent, AuditLog, acting

EVERY_SECONDS = 60.0
FREE = 100
"""So many wrong tokens of an address are told within that time that they are wrong."""
MAX_ADDRESSES = 100
OTHERS = "others"
"""Stands for the addresses beyond that number."""


class RefusedTokens:
    """Counts for one control plane, by address and minute."""

    def __init__(self, audit: AuditLog, every: float = EVERY_SECONDS) -> None:
        self._audit = audit
        self._every = every
        self._counts: Counter[str] = Counter()
        self._unrecorded: Counter[str] = Counter()
        self._recording: asyncio.Task[None] | None = None

    async def refuse(self) -> UnauthenticatedError | RefusedError:
        """Counts a wrong token of the address that acts; the error to raise."""
        address = network_of(acting.get().address or "unknown")
        if address not in self._counts and len(self._counts) >= MAX_ADDRESSES:
            address = OTHERS
        self._counts[address] += 1
        self._unrecorded[address] += 1
        if self._recording is None or self._recording.done():
            self._recording = asyncio.get_running_loop().create_task(self._record_regularly())
        if self._counts[address] == 1:
            await self._record(address)
        if self._counts[address] <= FREE:
            return UnauthenticatedError("this is not the admin token")
        return RefusedError(
            429,
            "too_many_refused_tokens",
            f"more than {FREE} wrong admin tokens came from this address within a minute",
            headers={"Retry-After": str(int(EVERY_SECONDS))},
        )

    async def end_minute(self) -> None:
        """Records what was counted and not recorded yet, and begins to count anew."""
        self._counts.clear()
        for address in list(self._unrecorded):
            await self._record(address)

    async def _record(self, address: str) -> None:
        """Records the attempts of one address; keeps them when that is not possible."""
        attempts = self._unrecorded.pop(address)
        acted = acting.set(Actor("", "none", address=address))
        detail = {"attempts": attempts}
        try:
            await self._audit.record(
                AuditEvent(action="token-refused", kind="admin token", detail=detail)
            )
        except StorageUnavailableError:
            self._unrecorded[address] += attempts
        finally:
            acting.reset(acted)

    async def _record_regularly(self) -> None:
        """Goes on as long as there is something to record or to forget."""
        while self._counts or self._unrecorded:
            await asyncio.sleep(self._every)
            await self.end_minute()
