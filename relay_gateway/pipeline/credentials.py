"""Credentials of host keys: fetched lazily and once at a time, kept in memory, refreshed early.

A credential that is known is handed out without waiting. Near the end of its life it is fetched
again in the background; while its backend cannot be reached the old one stays in use.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from relay_gateway.catalog.snapshot import HostKey
from relay_gateway.errors import SecretError, SecretUnavailableError
from relay_gateway.plugin.context import Clock
from relay_gateway.plugin.secrets import SecretBackend, SecretRef
from relay_gateway.secret import Secret

DEADLINE = 5.0
DEFAULT_TTL = 300.0
REFRESH_AT = 0.8
MAX_STALE = 86_400.0
RETRY_AFTER_FAILURE = 10.0


@dataclass(slots=True)
class _Known:
    """A credential and the reference it was fetched for. Times are of the monotonic clock."""

    stored: SecretRef
    secret: Secret
    fetched_at: float
    refresh_at: float
    error: str | None = None


class Credentials:
    """The credentials of this process, by host key."""

    def __init__(self, backends: Mapping[str, SecretBackend], clock: Clock) -> None:
        self._backends = backends
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._fetching: dict[str, asyncio.Task[Secret]] = {}

    def peek(self, key: HostKey) -> Secret | None:
        """The credential if it is known and still usable; starts a refresh when that is due."""
        known = self._known.get(key.id)
        # An unchanged row is the same object in most snapshots; comparing models costs more.
        if known is None or (known.stored is not key.stored and known.stored != key.stored):
            return None
        now = self._clock.monotonic()
        if now >= known.refresh_at:
            if now - known.fetched_at > MAX_STALE:
                return None
            self._fetch(key)
        return known.secret

    async def get(self, key: HostKey) -> Secret:
        """The credential, fetched when it must be. Raises :class:`SecretError`.

        A caller that stops waiting does not stop the fetch, which others may be waiting for.
        """
        known = self.peek(key)
        return known if known is not None else await asyncio.shield(self._fetch(key))

    def refused(self, key: HostKey, secret: Secret, changed: Callable[[], None]) -> None:
        """An upstream refused ``secret``: fetches it anew and calls ``changed`` if it is another
        one."""
        known = self._known.get(key.id)
        if known is not None and known.secret is not secret:
            changed()
            return

        def compare(task: asyncio.Task[Secret]) -> None:
            if task.cancelled() or task.exception() is not None:
                return
            if not task.result().matches(secret.reveal()):
                changed()

        self._fetch(key).add_done_callback(compare)

    def describe(self, key_id: str) -> dict[str, object]:
        """What the control plane shows: whether it is resolved, how old it is, what went wrong
        last."""
        known = self._known.get(key_id)
        if known is None:
            return {"resolved": False, "ageSeconds": None, "lastError": None}
        age = round(self._clock.monotonic() - known.fetched_at, 1)
        return {"resolved": True, "ageSeconds": age, "lastError": known.error}

    async def aclose(self) -> None:
        """Stops fetches that are under way and forgets every credential."""
        tasks = list(self._fetching.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._known.clear()

    def _fetch(self, key: HostKey) -> asyncio.Task[Secret]:
        task = self._fetching.get(key.id)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._resolve(key))
            self._fetching[key.id] = task
            task.add_done_callback(lambda done: self._fetched(key, done))
        return task

    def _fetched(self, key: HostKey, task: asyncio.Task[Secret]) -> None:
        self._fetching.pop(key.id, None)
        if task.cancelled() or task.exception() is None:
            return
        known = self._known.get(key.id)
        if known is not None:
            known.error = str(task.exception())
            known.refresh_at = self._clock.monotonic() + RETRY_AFTER_FAILURE

    async def _resolve(self, key: HostKey) -> Secret:
        backend = self._backends[key.backend]
        try:
            async with asyncio.timeout(DEADLINE):
                resolved = await backend.resolve(key.stored, key.binding)
        except TimeoutError:
            raise SecretUnavailableError(
                f"secret backend {key.backend!r} did not answer within {DEADLINE:g} s"
            ) from None
        except SecretError:
            raise
        except Exception as error:  # noqa: BLE001 - plugins raise what they like
            raise SecretUnavailableError(
                f"secret backend {key.backend!r} failed with {type(error).__name__}"
            ) from None
        _check_sendable(resolved.value)
        now = self._clock.monotonic()
        ttl = resolved.ttl if resolved.ttl is not None else DEFAULT_TTL
        self._known[key.id] = _Known(key.stored, resolved.value, now, now + ttl * REFRESH_AT)
        return resolved.value


def _check_sendable(secret: Secret) -> None:
    value = secret.reveal()
    if not value or not value.isascii() or not value.isprintable() or " " in value:
        raise SecretError("the credential has characters that a header cannot carry")
