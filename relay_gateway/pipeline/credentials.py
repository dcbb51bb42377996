"""Credentials of host keys: fetched lazily and once at a time, kept in memory, refreshed early.

A credential that is known is handed out without waiting. Near the end of its life it is fetched
again in the background; while its backend cannot be reached the old one stays in use. One that
cannot be had is not asked for again with each request, but after a pause that grows.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Protocol

from relay_gateway.errors import FAULTS, SecretError, SecretUnavailableError
from relay_gateway.pipeline.known_credentials import CredentialSource, Known, check_sendable
from relay_gateway.plugin.context import Clock
from relay_gateway.plugin.resolved import ResolvedSecret
from relay_gateway.plugin.secrets import SecretBackend, SecretRef
from relay_gateway.redaction import LIVE
from relay_gateway.secret import Secret

DEADLINE = 5.0
"""How long a backend may take, the wait for its other fetches included."""
AT_ONCE = 8
"""How many fetches of one backend are under way at a time."""
TEND_SECONDS = 0.5
"""How often those are looked for whose pause is over."""


Report = Callable[[str, BaseException], None]


def no_report(_backend: str, _error: BaseException) -> None:
    """Nobody counts failures of backends here."""


class Observer(Protocol):
    """Who wants to know what became of fetches. It is told before anybody who waits for one."""

    def resolved(self, key: CredentialSource, secret: Secret) -> None:
        """The credential of ``key`` is known; it may be the same as before."""

    def unresolved(self, key: CredentialSource, error: SecretError, pause: float) -> None:
        """It could not be had, and is asked for again after ``pause`` seconds at the earliest."""


class Credentials:
    """The credentials of this process, by host key.

    ``check`` raises :class:`SecretError` for a value that cannot be used. ``report`` is told, with
    the name of the backend, of one that could not be asked.
    """

    def __init__(
        self,
        backends: Mapping[str, SecretBackend],
        clock: Clock,
        *,
        check: Callable[[Secret], None] = check_sendable,
        report: Report = no_report,
    ) -> None:
        self._backends = backends
        self._check = check
        self._report = report
        self._clock = clock
        self._known: dict[str, Known] = {}
        self._fetching: dict[str, tuple[SecretRef, asyncio.Task[Secret]]] = {}
        self._rooms: dict[str, asyncio.Semaphore] = {}
        self._troubled: set[str] = set()
        self.observer: Observer | None = None
        self.fetches: Counter[tuple[str, str]] = Counter()
        """How often each backend was asked, by its name and ``ok`` or ``error``."""

    def peek(self, key: CredentialSource) -> Secret | None:
        """The credential if it is known and still usable; starts a refresh when that is due."""
        known = self._known.get(key.id)
        # An unchanged row is the same object in most snapshots; comparing models costs more.
        if known is None or (known.stored is not key.stored and known.stored != key.stored):
            return None
        now = self._clock.monotonic()
        if now >= known.due:
            if not known.is_usable(now):
                return None
            self._fetch(key)
        return known.secret

    async def get(self, key: CredentialSource) -> Secret:
        """The credential, fetched when it must be. Raises :class:`SecretError`, without asking the
        backend as long as the pause after its last error lasts.

        A caller that stops waiting does not stop the fetch, which others may be waiting for.
        """
        secret = self.peek(key)
        if secret is not None:
            return secret
        error = self._of_pause(key)
        if error is not None:
            # Without the traces of all who met it before.
            raise error.with_traceback(None)
        return await asyncio.shield(self._fetch(key))

    def refused(self, key: CredentialSource, secret: Secret) -> None:
        """An upstream refused ``secret``: it is fetched anew, and not handed out before that."""
        known = self._of(key)
        if known is not None and known.secret is secret:
            known.doubted, known.due = True, 0.0
            self._fetch(key)

    async def renewed(self, key: CredentialSource, secret: Secret) -> bool:
        """Whether there is another credential than ``secret`` now; waits for a fetch that is under
        way."""
        fetching = self._under_way(key)
        if fetching is not None:
            with contextlib.suppress(SecretError):
                await asyncio.shield(fetching)
        return self.is_replaced(key, secret)

    def is_replaced(self, key: CredentialSource, secret: Secret) -> bool:
        """Whether another credential than ``secret`` is known."""
        known = self._of(key)
        if known is None or known.secret is None or known.secret is secret:
            return False
        return not known.secret.matches(secret.reveal())

    def watch(self, key: CredentialSource, pause: float) -> None:
        """Looks after ``pause`` seconds whether there is another credential, and again until there
        is: for one that is of no use as it is."""
        known = self._of(key)
        if known is not None:
            known.due = self._clock.monotonic() + pause
            known.watched = pause
            known.source = key
            self._troubled.add(key.id)

    def unwatch(self, key: CredentialSource) -> None:
        """Looks no more often than for any other credential."""
        known = self._of(key)
        if known is not None and known.watched is not None:
            known.watched = None
            self._troubled.discard(key.id)

    def retry(self, key_id: str) -> None:
        """Ends the pause after an error: the next who needs the credential asks its backend."""
        known = self._known.get(key_id)
        if known is not None and known.error is not None:
            known.due = 0.0

    def tend(self) -> None:
        """Begins to fetch what could not be had, or was of no use, where the pause is over."""
        now = self._clock.monotonic()
        for key_id in list(self._troubled):
            known = self._known.get(key_id)
            if known is None or known.source is None:
                self._troubled.discard(key_id)
            elif now >= known.due:
                self._fetch(known.source)

    async def run(self) -> None:
        """Tends again and again."""
        while True:
            await asyncio.sleep(TEND_SECONDS)
            self.tend()

    def retain(self, sources: Mapping[str, CredentialSource]) -> list[str]:
        """Forgets what is not among ``sources``, or is of another reference; returns the ids."""
        gone = [
            key_id
            for key_id, known in self._known.items()
            if (source := sources.get(key_id)) is None
            or (source.stored is not known.stored and source.stored != known.stored)
        ]
        for key_id in gone:
            del self._known[key_id]
        return gone

    def describe(self, key_id: str) -> dict[str, object]:
        """What the control plane shows: where the credential is from, how old it is, when it is
        fetched again, what went wrong last."""
        known = self._known.get(key_id) or Known.nothing()
        return known.described(self._clock.monotonic())

    async def aclose(self) -> None:
        """Stops fetches that are under way and forgets every credential."""
        tasks = [task for _, task in self._fetching.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._known.clear()
        self._troubled.clear()

    def _of_pause(self, key: CredentialSource) -> SecretError | None:
        """The last error, while its pause lasts and nothing is under way."""
        known = self._of(key)
        if known is None or known.error is None or self._under_way(key) is not None:
            return None
        return known.error if self._clock.monotonic() < known.due else None

    def _of(self, key: CredentialSource) -> Known | None:
        known = self._known.get(key.id)
        return known if known is not None and known.stored == key.stored else None

    def _under_way(self, key: CredentialSource) -> asyncio.Task[Secret] | None:
        found = self._fetching.get(key.id)
        if found is None or found[0] != key.stored or found[1].done():
            return None
        return found[1]

    def _fetch(self, key: CredentialSource) -> asyncio.Task[Secret]:
        task = self._under_way(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._renew(key))
            self._fetching[key.id] = (key.stored, task)
            task.add_done_callback(lambda done: self._fetched(key, done))
        return task

    def _fetched(self, key: CredentialSource, task: asyncio.Task[Secret]) -> None:
        # Another reference may be fetched by now, or the same one once more.
        found = self._fetching.get(key.id)
        if found is not None and found[1] is task:
            del self._fetching[key.id]
        if not task.cancelled():
            task.exception()  # whoever waited has it; nobody may have

    async def _renew(self, key: CredentialSource) -> Secret:
        try:
            resolved = await self._resolve(key)
        except SecretError as error:
            self.fetches[key.backend, "error"] += 1
            if isinstance(error, SecretUnavailableError):
                self._report(key.backend, error)
            self._note_error(key, error)
            raise
        self.fetches[key.backend, "ok"] += 1
        return self._note(key, resolved)

    def _note(self, key: CredentialSource, resolved: ResolvedSecret) -> Secret:
        known = self._of(key)
        if known is None:
            known = self._known[key.id] = Known(key.stored, key.backend)
        secret = known.renew(resolved, self._clock.monotonic())
        LIVE.add(secret)
        if known.watched is None:
            self._troubled.discard(key.id)
        if self.observer is not None:
            self.observer.resolved(key, secret)
        return secret

    def _note_error(self, key: CredentialSource, error: SecretError) -> None:
        known = self._of(key)
        if known is None:
            known = self._known[key.id] = Known(key.stored, key.backend)
        known.source = key
        pause = known.fail(error, self._clock.monotonic(), random.uniform(0.9, 1.1))  # noqa: S311 - jitter
        self._troubled.add(key.id)
        if self.observer is not None:
            self.observer.unresolved(key, error, pause)

    async def _resolve(self, key: CredentialSource) -> ResolvedSecret:
        backend = self._backends[key.backend]
        room = self._rooms.get(key.backend)
        if room is None:
            room = self._rooms[key.backend] = asyncio.Semaphore(AT_ONCE)
        try:
            async with asyncio.timeout(DEADLINE), room:
                resolved = await backend.resolve(key.stored, key.binding)
                self._check(resolved.value)
        except TimeoutError:
            raise SecretUnavailableError(
                f"secret backend {key.backend!r} did not answer within {DEADLINE:g} s"
            ) from None
        except SecretError:
            raise
        except FAULTS as error:  # plugins raise what they like
            raise SecretUnavailableError(
                f"secret backend {key.backend!r} failed with {type(error).__name__}"
            ) from None
        return resolved
