"""What the gateway hands to each plugin instance: the world outside it."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from relay_gateway.errors import SecretUnavailableError
from relay_gateway.plugin.resolved import ResolvedSecret
from relay_gateway.redaction import LIVE
from relay_gateway.secret import Secret

if TYPE_CHECKING:
    import httpx

T = TypeVar("T")


class Clock(Protocol):
    """Where time comes from; tests pass one they can turn."""

    def monotonic(self) -> float:
        """Seconds that never step back; for deadlines, limits and ages."""

    def time(self) -> float:
        """Seconds since the epoch; for records and expiry dates only."""


class SystemClock:
    """The clock of the machine."""

    monotonic = staticmethod(time.monotonic)
    time = staticmethod(time.time)


async def _no_backends(reference: Mapping[str, Any]) -> ResolvedSecret:
    raise SecretUnavailableError(
        f"there is no secret backend here that {reference.get('kind')!r} could be asked of"
    )


@dataclass(slots=True)
class PluginContext:
    """Services of the gateway for one plugin instance.

    A plugin uses these instead of making its own: threads are bounded, HTTP honours the gateway's
    rules (no redirects, no proxy variables), time can be turned in tests.
    """

    plugin: str
    """Name of the plugin this context belongs to; names its logger and threads."""
    data_dir: Path
    """Directory of the gateway's own files; a plugin keeps its files below ``data_dir /
    plugin``."""
    database_url: str
    """The gateway's database as the operator wrote it (``sqlite:///…`` or ``postgresql://…``)."""
    master_keys: Sequence[Secret] = ()
    """The master key ring, current key first, each 32 bytes in standard base64; may be empty."""
    environ: Callable[[str], str | None] = field(default=lambda _name: None)
    """Reads one environment variable as it was when the process started."""
    withdraw: Callable[[str], None] = field(default=lambda _name: None)
    """Removes a variable, whose value is a credential and has been read, from the environment of
    the process, where others could read it; ``environ`` goes on giving it."""
    resolve_secret: Callable[[Mapping[str, Any]], Awaitable[ResolvedSecret]] = _no_backends
    """Asks a secret backend for the credential that a ``valueFrom`` reference in the plugin's own
    section leads to, each time anew: the plugin keeps it for as long as its ``ttl`` says, and asks
    again when the credential is refused. Raises :class:`SecretError`."""
    clock: Clock = field(default_factory=SystemClock)
    max_threads: int = 8
    """How many blocking calls of this plugin may run at once; further ones wait."""
    _executor: ThreadPoolExecutor | None = None
    _http: httpx.AsyncClient | None = None

    @property
    def logger(self) -> logging.Logger:
        """The plugin's logger, below the gateway's own."""
        return logging.getLogger(f"relay_gateway.plugins.{self.plugin}")

    def hide(self, secret: Secret) -> None:
        """Keeps a credential that the plugin was given while it works (the token of a login, the
        keys of a session) out of all that the process logs, whole and in part, for as long as the
        plugin holds ``secret``.

        Values of the plugin's own section and those that a secret backend resolves are hidden
        without it. One shorter than 8 characters cannot be hidden. Threads may call it.
        """
        LIVE.add(secret)

    async def run_blocking(self, call: Callable[..., T], *args: object) -> T:
        """Runs ``call(*args)`` in a thread of this plugin's own bounded pool and returns its
        result.

        A cancelled wait leaves the thread to finish by itself; the pool bounds how many such can
        be.
        """
        import asyncio

        if self._executor is None:
            self._executor = ThreadPoolExecutor(
                self.max_threads, thread_name_prefix=f"relay-{self.plugin}"
            )
        return await asyncio.get_running_loop().run_in_executor(self._executor, call, *args)

    @property
    def http(self) -> httpx.AsyncClient:
        """An HTTP client for the plugin's own services (never for inference): no redirects, no
        proxy variables, 10 s timeouts. Made on first use and closed with the plugin."""
        if self._http is None:
            import httpx

            self._http = httpx.AsyncClient(follow_redirects=False, trust_env=False, timeout=10.0)
        return self._http

    async def aclose(self) -> None:
        """Releases threads and connections; called by the gateway after the plugin's ``aclose``."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None
