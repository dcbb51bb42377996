"""Work on very many things, a few in each turn of the loop, so that nobody waits for all of it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, Generic, TypeVar

T = TypeVar("T")
AT_ONCE: Final = 16


class Portions(Generic[T]):
    """Calls ``act`` with one thing after the other: the first :data:`AT_ONCE` at once, the others
    in later turns, between which the loop reads and writes."""

    __slots__ = ("_act", "_left")

    def __init__(self, act: Callable[[T], None]) -> None:
        self._act = act
        self._left: deque[T] = deque()

    def begin(self, things: Iterable[T], loop: asyncio.AbstractEventLoop) -> None:
        """Takes ``things`` on, in place of those that are still left."""
        under_way = bool(self._left)
        self._left = deque(things)
        if not under_way:
            self._go_on(loop)

    def add(self, things: Iterable[T], loop: asyncio.AbstractEventLoop) -> None:
        """Takes ``things`` on, after those that are still left."""
        self.begin((*self._left, *things), loop)

    def _go_on(self, loop: asyncio.AbstractEventLoop) -> None:
        left = self._left
        portion = [left.popleft() for _ in range(min(AT_ONCE, len(left)))]
        if left:
            loop.call_soon(self._go_on, loop)  # first, because what is done may fail
        for one in portion:
            self._act(one)
