"""A state store that cannot hold requests up: a deadline for each call, and a breaker.

A reservation that is answered too late is given back. What a store raises becomes
:class:`StateUnavailableError`; what happens then is for each rule to say. A store that is only busy
is asked again, in turn, for a little longer.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from relay_gateway.errors import FAULTS, StateBusyError, StateUnavailableError
from relay_gateway.limits.breaker import Breaker
from relay_gateway.plugin.context import Clock
from relay_gateway.plugin.state import Grant, Hold, StateStore

CALL_SECONDS = 0.05
"""How long a request waits for the store at most."""
LINGER_SECONDS = 5.0
"""How long a call may take altogether; then it is cancelled."""
MAX_LINGERING = 1024
"""How many calls may be under way that nobody waits for."""
MAX_SETTLING = 256
"""How many settlements may be under way at a time; further ones follow them."""
BUSY_SECONDS = 1.0
"""How long a request waits at most for a store that is busy."""
BUSY_PAUSE = 0.002
"""After how long to ask it again."""
MAX_LATE = 65_536
"""How many settlements may wait for it; what is beyond ends with its window or lease."""
SAY_SECONDS = 60.0
"""How often at most to say in the log that it is busy for too long."""

_log = logging.getLogger(__name__)


Report = Callable[[str, BaseException], None]


def _no_report(_store: str, _error: BaseException) -> None:
    """Nobody counts failures of stores here."""


class GuardedStore:
    """What limits ask instead of the store itself. ``report`` is told of each failure, with the
    name of the store."""

    def __init__(self, store: StateStore[Any], clock: Clock, report: Report = _no_report) -> None:
        self._store = store
        self._report = report
        self._monotonic = clock.monotonic
        self._breaker = Breaker()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._turn = asyncio.Lock()
        self._late: deque[tuple[str, Sequence[Hold], Sequence[int]]] = deque()
        self._settling = 0
        self._catching_up: asyncio.Task[None] | None = None
        self._say_at = 0.0
        self.immediate = store.immediate

    @property
    def is_lost(self) -> bool:
        """Whether the store is left alone right now because it cannot be asked."""
        return self._breaker.is_open

    @property
    def name(self) -> str:
        """The name of the store."""
        return self._store.name

    def reserve_now(self, request_id: str, holds: Sequence[Hold]) -> Grant:
        """Reserves without waiting. Raises :class:`StateUnavailableError`, and
        :class:`StateBusyError` where :meth:`reserve` would wait a moment."""
        if self._breaker.is_open:
            self._enter()
        try:
            grant = self._store.reserve_now(request_id, holds)
        except StateBusyError:
            self._breaker.left()
            raise
        except FAULTS as error:
            raise self._failed(error) from error
        if self._breaker.is_open:
            self._succeeded()
        return grant

    async def reserve(self, request_id: str, holds: Sequence[Hold]) -> Grant:
        """Reserves within the deadline. Raises :class:`StateUnavailableError`, which is a
        :class:`StateBusyError` where the store had no time in a much longer one."""
        if self.immediate:
            return await self._reserve_in_turn(request_id, holds)
        self._enter()
        task = self._begin(self._store.reserve(request_id, holds))
        try:
            await asyncio.wait({task}, timeout=CALL_SECONDS)
        except asyncio.CancelledError:
            self._breaker.left()
            self._forgo(task, request_id, holds)
            raise
        if not task.done():
            self._forgo(task, request_id, holds)
            raise self._failed(TimeoutError(f"no answer in {CALL_SECONDS * 1000:.0f} ms"))
        error = _failure(task)
        if error is not None:
            raise self._failed(error) from error
        grant: object = task.result()
        if not isinstance(grant, Grant):
            raise self._failed(TypeError(f"it answered with a {type(grant).__name__}"))
        self._succeeded()
        return grant

    async def renew(self, request_id: str, holds: Sequence[Hold]) -> None:
        """Has the leases of a reservation begin anew. Raises :class:`StateUnavailableError`."""
        if self.immediate:
            self.reserve_now(request_id, holds)
        else:
            await self.reserve(request_id, holds)

    def settle(self, request_id: str, holds: Sequence[Hold], used: Sequence[int]) -> None:
        """Settles, in the background where the store waits; a failure is counted and forgotten,
        since every claim ends by itself."""
        if self.immediate:
            try:
                self._store.settle_now(request_id, holds, used)
            except StateBusyError:
                self._settle_later(request_id, holds, used)
            except FAULTS as error:  # plugins raise what they like
                self._failed(error)
        elif self._settling < MAX_SETTLING:
            self._begin_settling(request_id, holds, used)
        elif len(self._late) < MAX_LATE:
            self._late.append((request_id, holds, used))

    async def aclose(self) -> None:
        """Waits for what is under way and for what follows it, as long as a call may take."""
        deadline = asyncio.get_running_loop().time() + LINGER_SECONDS
        while self._tasks and asyncio.get_running_loop().time() < deadline:
            await asyncio.wait(self._tasks, timeout=CALL_SECONDS)
        self._late.clear()
        for task in self._tasks:
            task.cancel()

    async def _reserve_in_turn(self, request_id: str, holds: Sequence[Hold]) -> Grant:
        """Asks a store that may be busy again and again, one caller at a time."""
        try:
            async with asyncio.timeout(BUSY_SECONDS), self._turn:
                while True:
                    try:
                        return self.reserve_now(request_id, holds)
                    except StateBusyError:
                        await asyncio.sleep(BUSY_PAUSE)
        except TimeoutError:
            self._say_busy()
            raise StateBusyError(f"the state store {self.name!r} is busy") from None

    def _settle_later(self, request_id: str, holds: Sequence[Hold], used: Sequence[int]) -> None:
        if len(self._late) >= MAX_LATE:
            return
        self._late.append((request_id, holds, used))
        if self._catching_up is None or self._catching_up.done():
            self._catching_up = asyncio.ensure_future(self._catch_up())
            self._tasks.add(self._catching_up)
            self._catching_up.add_done_callback(self._tasks.discard)

    async def _catch_up(self) -> None:
        """Settles what could not be settled in its time."""
        while self._late:
            try:
                self._store.settle_now(*self._late[0])
            except StateBusyError:
                await asyncio.sleep(BUSY_PAUSE)
                continue
            except FAULTS as error:  # plugins raise what they like
                self._failed(error)
            self._late.popleft()
            await asyncio.sleep(0)

    def _say_busy(self) -> None:
        now = self._monotonic()
        if now >= self._say_at:
            self._say_at = now + SAY_SECONDS
            _log.warning(
                "the state store %r has been busy for %.1f s, and limited requests are refused "
                "until it has time: is a worker stopped?",
                self.name,
                BUSY_SECONDS,
            )

    def _begin_settling(self, request_id: str, holds: Sequence[Hold], used: Sequence[int]) -> None:
        self._settling += 1
        task = self._begin(self._settle(request_id, holds, used))
        task.add_done_callback(self._settled)

    async def _settle(self, request_id: str, holds: Sequence[Hold], used: Sequence[int]) -> None:
        try:
            await self._store.settle(request_id, holds, used)
        except FAULTS as error:  # plugins raise what they like
            self._failed(error)

    def _settled(self, task: asyncio.Task[None]) -> None:
        self._settling -= 1
        if not task.cancelled():
            error = task.exception()
            if error is not None:
                self._failed(error)
        if self._late:
            self._begin_settling(*self._late.popleft())

    def _begin(self, call: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.ensure_future(asyncio.wait_for(call, LINGER_SECONDS))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _forgo(self, task: asyncio.Task[Grant], request_id: str, holds: Sequence[Hold]) -> None:
        """Gives back what ``task`` may still reserve, though nobody waits for it."""

        def ended(_: asyncio.Task[Grant]) -> None:
            # Whether it failed or not: the store may have taken the claims, and not said so.
            if _failure(task) is not None or task.result().refused < 0:
                self.settle(request_id, holds, [0] * len(holds))

        task.add_done_callback(ended)

    def _enter(self) -> None:
        if not self._breaker.admits(self._monotonic()) or len(self._tasks) >= MAX_LINGERING:
            raise StateUnavailableError(f"the state store {self.name!r} cannot be asked")

    def _succeeded(self) -> None:
        seconds = self._breaker.succeeded(self._monotonic())
        if seconds is not None:
            _log.info("the state store %r answers again after %.1f s", self.name, seconds)

    def replace(self, store: StateStore[Any]) -> None:
        """Asks ``store``, another instance of the same class, from now on."""
        self._store = store

    def _failed(self, error: BaseException) -> StateUnavailableError:
        self._report(self._store.name, error)
        if self._breaker.failed(self._monotonic()):
            _log.error(
                "the state store %r cannot be asked (%s: %s); until it can, each rule counts as "
                "its onStateLoss says",
                self.name,
                type(error).__name__,
                error,
            )
        return StateUnavailableError(f"the state store {self.name!r} cannot be asked")


def _failure(task: asyncio.Task[Any]) -> BaseException | None:
    if task.cancelled():
        return TimeoutError("the call was cancelled")
    return task.exception()
