"""Calls of a plugin that are awaited: counted, timed, bounded, and never the end of the process."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import wraps
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from relay_gateway.errors import (
    PluginError,
    PluginUnavailableError,
    RelayError,
    SecretDeniedError,
    SecretNotFoundError,
    SecretRefError,
    SecretUnavailableError,
)
from relay_gateway.plugin import Guard, Plugin
from relay_gateway.registry.kinds import PluginKind

OPEN_AFTER: Final = 5
"""So many failures in a row have a method left alone."""
OPEN_SECONDS: Final = 1.0
"""For so long; then a single call tries it."""

Report = Callable[[BaseException], None]


class Terms(msgspec.Struct, frozen=True):
    """What bounds a method: ``seconds`` to answer, ``at_once`` calls under way. A guard says itself
    how many seconds it may take.

    Without ``seconds`` it is called from where there are a deadline, a cap and pauses after
    failures already, which are told of there: the delivery of records, the guard of the state
    store, the credentials of host keys, the dispatcher. ``answers`` are errors that the interface
    has for telling something to whoever asked; any other is a failure.
    """

    seconds: float | None = None
    at_once: int = 0
    answers: tuple[type[Exception], ...] = ()


OWNED: Final = Terms()
READING: Final = Terms(60.0, 16, (ValueError, NotImplementedError))
GUARDING: Final = Terms(1.0, 1024)
SEALING: Final = Terms(10.0, 32, (SecretRefError, SecretDeniedError, SecretNotFoundError))

TERMS: Final[Mapping[PluginKind, Mapping[str, Terms]]] = {
    PluginKind.SECRET_BACKEND: {
        "resolve": OWNED,
        "seal": SEALING,
        "wrap": SEALING,
    },
    PluginKind.UPSTREAM_PROVIDER: {"answer": OWNED},
    PluginKind.USAGE_SINK: {
        "write": OWNED,
        "get": READING,
        "correct": Terms(60.0, 2, READING.answers),
        "query": READING,
        "summarize": READING,
        "timeseries": READING,
    },
    PluginKind.PAYLOAD_LOGGER: {"write": OWNED, "read": Terms(9.0, 16, READING.answers)},
    PluginKind.STATE_STORE: {"reserve": OWNED, "settle": OWNED},
    PluginKind.GUARD: {"inspect_request": GUARDING, "inspect_response": GUARDING},
}
"""Every method that is awaited, of every kind; opening and closing have :class:`Instance`."""


class CallCounts(msgspec.Struct):
    """Calls of one plugin so far: how many, and how long they took together, in seconds."""

    calls: int = 0
    seconds: float = 0.0


class Breaker:
    """Whether a plugin is asked: not for a moment after failures in a row, then by one call."""

    def __init__(self) -> None:
        self._failures = 0
        self._closed_until = 0.0

    def admits(self, now: float) -> bool:
        """Whether a call may be made; each that may after failures is the only one for a while."""
        if self._failures < OPEN_AFTER:
            return True
        if now < self._closed_until:
            return False
        self._closed_until = now + OPEN_SECONDS
        return True

    def answered(self) -> None:
        """A call was answered."""
        self._failures = 0

    def failed(self, now: float) -> None:
        """A call failed."""
        self._failures += 1
        self._closed_until = now + OPEN_SECONDS


class Calls(msgspec.Struct):
    """The calls of one instance. ``counts`` outlive it: its successor goes on with them."""

    kind: PluginKind
    name: str
    counts: CallCounts
    report: Report
    in_flight: int = 0
    _ended: asyncio.Event = msgspec.field(default_factory=asyncio.Event)

    def guard(self, plugin: Plugin[Any]) -> None:
        """Has the calls of ``plugin`` go through here from now on."""
        for method, terms in TERMS.get(self.kind, {}).items():
            call = getattr(plugin, method, None)
            if isinstance(plugin, Guard):
                call, terms = _awaitable(call), replace(terms, seconds=plugin.seconds)  # noqa: PLW2901 - its own
            if call is not None:
                guarded = self._counted(call) if terms.seconds is None else self._bound(call, terms)
                setattr(plugin, method, guarded)

    async def drained(self, seconds: float) -> bool:
        """Waits until no call is under way, for at most ``seconds``; whether that is so."""
        try:
            async with asyncio.timeout(seconds):
                while self.in_flight:
                    self._ended.clear()
                    await self._ended.wait()
        except TimeoutError:
            return False
        return True

    def _counted(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        @wraps(call)
        async def counted(*args: Any, **named: Any) -> Any:
            began = time.perf_counter()
            self.in_flight += 1
            try:
                return await call(*args, **named)
            except SystemExit as error:
                # Let through, it would stop the event loop and everything on it.
                raise PluginError(f"called sys.exit({error.code!r})") from error
            finally:
                self.in_flight -= 1
                self.counts.calls += 1
                self.counts.seconds += time.perf_counter() - began
                self._ended.set()

        return counted

    def _bound(
        self, call: Callable[..., Awaitable[Any]], terms: Terms
    ) -> Callable[..., Awaitable[Any]]:
        counted, breaker = self._counted(call), Breaker()
        under_way = 0

        @wraps(call)
        async def bound(*args: Any, **named: Any) -> Any:
            nonlocal under_way
            if under_way >= terms.at_once:
                raise self._unavailable(f"has {under_way} calls to answer already")
            if not breaker.admits(time.monotonic()):
                raise self._unavailable("failed again and again, and is left alone for a moment")
            under_way += 1
            try:
                answer = await self._answer(counted(*args, **named), terms)
            except terms.answers:
                breaker.answered()
                raise
            except Exception as error:
                breaker.failed(time.monotonic())
                self.report(self._tellable(error))
                raise
            finally:
                under_way -= 1
            breaker.answered()
            return answer

        return bound

    async def _answer(self, call: Awaitable[Any], terms: Terms) -> Any:
        deadline = asyncio.timeout(terms.seconds)
        try:
            async with deadline:
                return await call
        except TimeoutError as error:
            if not deadline.expired():
                raise
            raise self._unavailable(f"did not answer within {terms.seconds:g} s") from error

    def _tellable(self, error: Exception) -> Exception:
        """What may be told of ``error``: one of a secret backend may quote the value."""
        if self.kind is PluginKind.SECRET_BACKEND and not isinstance(error, RelayError):
            return PluginError(f"raised {type(error).__name__}")
        return error

    def _unavailable(self, reason: str) -> Exception:
        sentence = f"the {self.kind} {self.name!r} {reason}"
        if self.kind is PluginKind.SECRET_BACKEND:
            return SecretUnavailableError(sentence)
        return PluginUnavailableError(sentence)


def _awaitable(call: Callable[..., Any] | None) -> Callable[..., Awaitable[Any]] | None:
    """``call``, which may be a plain function, as one that is awaited."""
    if call is None or inspect.iscoroutinefunction(call):
        return call

    @wraps(call)
    async def awaited(*args: Any, **named: Any) -> Any:
        answer = call(*args, **named)
        return await answer if inspect.isawaitable(answer) else answer

    return awaited
