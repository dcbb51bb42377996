"""An event loop without waiting: its clock jumps to the next timer when there is nothing to do."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """For what takes minutes by the clock and nothing by itself: ``asyncio.Runner(loop_factory=
    VirtualTimeLoop)``. The same work always takes the same time, which begins at 0.

    What is meant for a thread runs at once, and no time passes meanwhile. Nothing from outside the
    process is waited for: a loop that has neither work nor timers raises ``RuntimeError``.
    """

    def __init__(self) -> None:
        self._now = 0.0
        super().__init__(_Jumping(self._jump))

    def time(self) -> float:
        """Seconds since the loop was made, as they would have passed."""
        return self._now

    def run_in_executor(
        self, executor: object, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """A future that is done already."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:  # noqa: BLE001 - it is raised where the work is waited for
            done.set_exception(error)
        return done

    def _jump(self, seconds: float | None) -> None:
        if seconds is None:
            raise RuntimeError("nothing is left to do, and nothing will ever happen")
        self._now += seconds


class _Jumping(selectors.SelectSelector):
    """Never waits; ``jump`` is told for how long it would have."""

    def __init__(self, jump: Callable[[float | None], None]) -> None:
        super().__init__()
        self._jump = jump

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout != 0:
            self._jump(timeout)
        return ready
