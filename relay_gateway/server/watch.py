"""Keeps the live snapshot at the revision of the database, or serves the last good one without it.

Correctness rests on the revision, which every write advances: it is compared after each
notification and, because notifications can be lost, at regular times.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any

import msgspec

from relay_gateway.catalog.build import SnapshotBuilder
from relay_gateway.catalog.garbage import uncollected
from relay_gateway.catalog.live import LiveCatalog
from relay_gateway.catalog.snapshot import QuarantinedRow, Snapshot
from relay_gateway.control.services import ReloadReport
from relay_gateway.errors import StorageUnavailableError
from relay_gateway.server.last_good import LastGoodError, LastGoodFile, LastGoodKeeper
from relay_gateway.storage.changes import CatalogChanges

ANSWER_SECONDS = 5.0
"""How long the database may take to tell its revision."""
LOAD_SECONDS = 60.0
PATIENCE_SECONDS = 1.0
"""How long a start waits for the database when it could serve without it."""
AGAIN_SECONDS = 0.5
"""How long what is cancelled may take before it is cancelled again."""
UNAVAILABLE, TIMEOUT, BUILD_FAILED = "database_unavailable", "timeout", "build_failed"

_log = logging.getLogger(__name__)


class Upkeep(msgspec.Struct, frozen=True):
    """How a snapshot is kept.

    ``interval`` are the seconds between two looks at the revision, ``max_age`` those after which a
    snapshot that cannot be confirmed serves no more (0: never). ``prepare`` brings a database that
    could not be asked before to this version; ``swapped`` is called with every new snapshot.
    """

    interval: float
    max_age: float
    prepare: Callable[[], Awaitable[None]]
    swapped: Callable[[Snapshot], None]


class CatalogWatcher:
    """Follows the database: after writes of this process, at notifications, and by polling."""

    def __init__(
        self,
        changes: CatalogChanges,
        live: LiveCatalog,
        builder: SnapshotBuilder,
        last_good: LastGoodFile,
        upkeep: Upkeep,
    ) -> None:
        self._changes = changes
        self._live = live
        self._builder = builder
        self._last_good = last_good
        self._keeper = LastGoodKeeper(last_good, builder.saved)
        self._upkeep = upkeep
        self._building = asyncio.Lock()
        self._next: asyncio.Task[ReloadReport] | None = None
        self._builds: set[asyncio.Task[ReloadReport]] = set()
        self._woken = asyncio.Event()
        self._prepared = True
        self._whole = True
        """Whether the next read must be of everything, because there may be a gap before it."""
        self._listened = False
        self._reported: Sequence[QuarantinedRow] = ()
        self._newest = 0
        self.failures: Counter[str] = Counter()
        """How often the catalog could not be read anew, by a word for the reason."""
        self._expiry: asyncio.TimerHandle | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, *, prepared: bool = True) -> None:
        """Loads the catalog from the database or else from disk, and follows from then on.

        With neither there is nothing to serve until the database can be asked; this is not an
        error. ``prepared`` tells whether the database is known to have this version's schema.
        """
        self._prepared = prepared
        self._keeper.start()
        if prepared:
            await self._try_database()
        else:
            self.failures[UNAVAILABLE] += 1
            self._reject("the database could not be asked at the start")
        if not self._live.loaded:
            await self._restore()
        self._tasks.append(asyncio.get_running_loop().create_task(self._follow()))

    def listen(self, run: Coroutine[Any, Any, None]) -> None:
        """Has ``run``, which listens to the database, go on as long as this."""
        self._tasks.append(asyncio.get_running_loop().create_task(run))

    @property
    def lag(self) -> int:
        """By how many revisions the snapshot is behind the newest one that was heard of."""
        return max(0, self._newest - self._live.current.revision)

    def heard(self, revision: int) -> None:
        """There is a notification of ``revision``."""
        self._newest = revision
        if revision > self._live.current.revision:
            self._woken.set()

    def listening(self) -> None:
        """Notifications are heard from now on; what came before may have been missed.

        After a gap everything is read: what answers may be another server than before.
        """
        self._whole = self._whole or self._listened
        self._listened = True
        self._woken.set()

    async def refresh(self) -> ReloadReport:
        """Applies what has changed in the database. Callers that come while a build is under way
        share the next one, so that many writes cost few builds."""
        if self._next is None:
            self._next = asyncio.get_running_loop().create_task(self._rebuild_next())
            self._builds.add(self._next)
            self._next.add_done_callback(self._built)
        return await asyncio.shield(self._next)

    async def reload(self) -> ReloadReport:
        """Reads the whole database anew, whatever its revision says."""
        self._whole = True
        return await self.refresh()

    async def plugins_changed(self) -> None:
        """Reads the whole database anew, because other plugins are there to make sense of it."""
        self._builder.plugins_changed()
        await self.reload()

    async def aclose(self) -> None:
        """Stops following; writes to disk what is not there yet."""
        if self._expiry is not None:
            self._expiry.cancel()
        await self._end([*self._tasks, *self._builds])
        await self._keeper.aclose()

    @staticmethod
    async def _end(tasks: Iterable[asyncio.Task[Any]]) -> None:
        ending = set(tasks)
        while ending:
            # More than once: when a connection breaks while a task that uses it is cancelled, the
            # error may take the place of the cancellation, and the task goes on.
            for task in ending:
                task.cancel()
            ended, ending = await asyncio.wait(ending, timeout=AGAIN_SECONDS)
            await asyncio.gather(*ended, return_exceptions=True)

    # Following.

    async def _try_database(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS if self._last_good.exists else None):
                await self._catch_up()
        except TimeoutError:
            self.failures[TIMEOUT] += 1
            self._reject("the database does not answer")
            await self._end(self._builds)

    async def _follow(self) -> None:
        while True:
            heard = await self._wait()
            await self._catch_up(at_once=heard)

    async def _wait(self) -> bool:
        """Waits until something is heard or it is time to look; returns whether it was heard."""
        pause = self._upkeep.interval * random.uniform(0.9, 1.0)  # noqa: S311 - jitter
        try:
            async with asyncio.timeout(pause):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        return True

    async def _catch_up(self, *, at_once: bool = False) -> None:
        """Brings the snapshot to the database's revision; never raises but for a cancellation."""
        try:
            if not self._prepared:
                await self._upkeep.prepare()
                self._prepared = True
            if at_once or self._whole or await self._is_behind():
                await self.refresh()
            else:
                self._confirm()
        except (StorageUnavailableError, TimeoutError) as error:
            self._whole = True
            self.failures[TIMEOUT if isinstance(error, TimeoutError) else UNAVAILABLE] += 1
            self._reject(str(error) or "the database does not answer")
        except Exception as error:  # noqa: BLE001 - the next look tries again
            self._whole = True
            self.failures[BUILD_FAILED] += 1
            if self._reject(f"{type(error).__name__}; the log has the details"):
                _log.exception("the catalog could not be built; the last good one stays")

    async def _is_behind(self) -> bool:
        async with asyncio.timeout(ANSWER_SECONDS):
            self._newest = await self._changes.revision()
        return self._newest != self._live.current.revision

    def _reject(self, reason: str) -> bool:
        """Keeps what there is; returns whether the reason is a new one."""
        if self._live.error == reason:
            return False
        self._live.reject(reason)
        served = "the last good catalog stays" if self._live.loaded else "there is none to serve"
        _log.warning("the catalog cannot be read: %s; %s", reason, served)
        return True

    # Building.

    def _built(self, task: asyncio.Task[ReloadReport]) -> None:
        self._builds.discard(task)
        if self._next is task:
            self._next = None
        if not task.cancelled():
            task.exception()  # whoever waited has it; nobody may have

    async def _rebuild_next(self) -> ReloadReport:
        async with self._building:
            self._next = None
            began = time.monotonic()
            whole, self._whole = self._whole, False
            try:
                async with asyncio.timeout(LOAD_SECONDS):
                    snapshot = await self._build(whole=whole)
            except BaseException:
                self._whole = True
                raise
            if snapshot is not None:
                self._swap(snapshot)
            self._confirm()
            duration = (time.monotonic() - began) * 1000
            current = self._live.current
            return ReloadReport(current.revision, current.entities, round(duration, 3))

    async def _build(self, *, whole: bool) -> Snapshot | None:
        """The next snapshot; ``None`` when the current one is up to date."""
        builder, intake = self._builder, self._builder.intake()
        with uncollected(stays=intake.is_large):
            delta = None if whole else await self._changes.since(builder.revision, intake.add)
            if delta is None:
                state = await self._changes.load(intake.add)
                return await asyncio.to_thread(
                    builder.apply, state.revision, intake, state.settings
                )
            if delta.revision == self._live.current.revision:
                return None
            return await asyncio.to_thread(
                builder.apply, delta.revision, intake, delta.settings, delta.deleted
            )

    def _swap(self, snapshot: Snapshot) -> None:
        self._report(snapshot)
        self._live.swap(snapshot)
        self._upkeep.swapped(snapshot)
        self._keeper.changed()

    def _report(self, snapshot: Snapshot) -> None:
        known = set(self._reported)
        for row in snapshot.quarantined:
            if row not in known:
                _log.warning("%s %s is left out: %s", row.kind, row.slug, row.reason)
        self._reported = snapshot.quarantined

    def _confirm(self) -> None:
        if self._live.error is not None:
            _log.info("the catalog can be read again, at revision %d", self._live.current.revision)
        self._live.confirm()
        self._keeper.confirmed(self._live.confirmed_at)
        self._expire_later()

    # Without the database.

    async def _restore(self) -> None:
        """Serves what is on disk, where there is something."""
        try:
            saved = await asyncio.to_thread(self._last_good.read)
        except LastGoodError as error:
            _log.error("%s", error)
            return
        if saved is None:
            return
        snapshot = await asyncio.to_thread(
            self._builder.load, saved.revision, saved.rows, saved.settings
        )
        self._report(snapshot)
        self._live.restore(snapshot, saved.confirmed_at)
        self._upkeep.swapped(snapshot)
        self._expire_later()
        _log.warning(
            "serving the catalog from disk: revision %d, source=disk, age=%.0f s",
            snapshot.revision, self._live.age,
        )  # fmt: skip

    def _expire_later(self) -> None:
        if self._expiry is not None:
            self._expiry.cancel()
        if self._upkeep.max_age:
            left = max(0.0, self._upkeep.max_age - self._live.age)
            self._expiry = asyncio.get_running_loop().call_later(left, self._expire)

    def _expire(self) -> None:
        _log.error("the catalog could not be confirmed for %g s and serves no more", self._live.age)
        self._live.expire()
