"""Signs of life in the database, so that every gateway on it can show all the others.

They are written beside everything else: a database that cannot be asked holds nobody up, and the
watch over the catalog says so already.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import time
from collections.abc import Callable
from typing import Final, Self

import msgspec

from relay_gateway import __version__
from relay_gateway.catalog.live import LiveCatalog
from relay_gateway.control.instances import SILENT_SECONDS
from relay_gateway.control.services import Readiness
from relay_gateway.errors import StorageUnavailableError
from relay_gateway.ids import instance_name, new_id
from relay_gateway.server.gathering import ALONE
from relay_gateway.storage import InstanceStore, LifeSign

BEAT_SECONDS = 5.0
"""How often a process in which nothing changes gives a sign of life."""
LOOK_SECONDS = 1.0
"""How often it looks whether there is something to say, and tries again what failed."""
ANSWER_SECONDS = 5.0
FORGET_SECONDS = 1.0
"""How long the end of a process waits for the database to forget it."""
REST_SECONDS = 60.0
"""How long nothing is tried after a failure that nobody expected."""
TIDY_SECONDS = 60.0
KEEP_SECONDS: Final = 86_400.0
"""How long a process is known that was not heard of again."""

_log = logging.getLogger(__name__)


class Member(msgspec.Struct, frozen=True):
    """Which process this is of which gateway; ``gateway_id`` is another one after each start."""

    gateway_id: str
    process: str

    @classmethod
    def alone(cls) -> Self:
        """A process that is all of its gateway."""
        return cls(new_id(), ALONE)


class Heartbeat:
    """Gives signs of life of ``member``, whose gateway has its inference plane on ``port``: every
    few seconds, and within a second when the snapshot or the readiness has changed."""

    def __init__(
        self,
        store: InstanceStore,
        member: Member,
        port: int,
        live: LiveCatalog,
        readiness: Callable[[], Readiness],
    ) -> None:
        self._store = store
        self._member = member
        self._gateway = f"{socket.gethostname()}:{port}"
        self._live = live
        self._readiness = readiness
        self._began = time.monotonic()
        self._said: object = None
        self._due = self._tidy_due = self._resting_until = 0.0
        self._known = False
        """Whether the database may have this process, and could be asked the last time."""

    async def run(self) -> None:
        """Gives signs of life for as long as it is not cancelled."""
        while True:
            # Not in step with others that were started at the same time.
            await asyncio.sleep(LOOK_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311 - jitter
            now = time.monotonic()
            changed = self._said != _gist(self._readiness()) and now >= self._resting_until
            if changed or now >= self._due:
                await self._attempt()

    async def beat(self) -> None:
        """Gives one sign of life. Raises :class:`StorageUnavailableError`, and ``TimeoutError``
        when the database does not answer."""
        readiness = self._readiness()
        self._known = True
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._store.note(self._sign(readiness))
        except (StorageUnavailableError, TimeoutError):
            self._known = False
            raise
        self._said = _gist(readiness)
        pause = BEAT_SECONDS * random.uniform(0.9, 1.0)  # noqa: S311 - jitter
        self._due = time.monotonic() + pause

    async def aclose(self) -> None:
        """Has the database forget this process, if it can be asked."""
        if not self._known:
            return
        try:
            async with asyncio.timeout(FORGET_SECONDS):
                await self._store.forget(self._member.gateway_id, self._member.process)
        except (StorageUnavailableError, TimeoutError) as error:
            _log.debug("the database was not told of the end of this process: %s", error)

    async def _attempt(self) -> None:
        try:
            await self.beat()
            await self._tidy()
        except (StorageUnavailableError, TimeoutError) as error:
            _log.debug("no sign of life could be given: %s", error)
        except Exception:  # noqa: BLE001 - serving matters more
            self._due = self._resting_until = time.monotonic() + REST_SECONDS
            _log.exception("no sign of life could be given")

    async def _tidy(self) -> None:
        now = time.monotonic()
        if now < self._tidy_due:
            return
        self._tidy_due = now + TIDY_SECONDS
        async with asyncio.timeout(ANSWER_SECONDS):
            await self._store.tidy(
                self._member.gateway_id,
                self._gateway,
                silent_seconds=SILENT_SECONDS,
                keep_seconds=KEEP_SECONDS,
            )

    def _sign(self, readiness: Readiness) -> LifeSign:
        now = time.monotonic()
        loaded = readiness.revision is not None
        return LifeSign(
            gateway_id=self._member.gateway_id,
            process=self._member.process,
            gateway=self._gateway,
            instance=instance_name(),
            version=__version__,
            state=state_of(readiness),
            degraded=readiness.degraded,
            revision=readiness.revision,
            age=now - self._began,
            applied_age=now - self._live.applied_at if loaded else None,
        )


def state_of(readiness: Readiness) -> str:
    """One word: ``draining``, ``not-ready``, ``degraded`` or ``ready``."""
    if readiness.draining:
        return "draining"
    if not readiness.ready:
        return "not-ready"
    return "degraded" if readiness.degraded else "ready"


def _gist(readiness: Readiness) -> object:
    """What others should hear of soon; reasons may change with every second."""
    return readiness.revision, state_of(readiness), frozenset(readiness.degraded)
