"""Who holds up the event loop: a thread looks at what the loop's own is doing, when it is late.

It can look whenever the interpreter is free: while code sleeps, waits for a file or computes in
Python. A library that computes without giving it away is seen only afterwards, as lag.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from types import FrameType

import msgspec

from relay_gateway.observe.loop_lag import LoopLag

LATE_SECONDS = 0.5
"""So late the timer of the loop must be before the loop counts as held up."""
LOOK_SECONDS = 0.25
STACK_CALLS = 40
"""How many of the innermost calls of a stack are told of."""

_log = logging.getLogger(__name__)


class Stall(msgspec.Struct, frozen=True):
    """The event loop was held up for ``seconds`` at least; ``modules`` are those of the calls that
    it was in, innermost first, and ``stack`` the calls in the words of a traceback."""

    seconds: float
    modules: tuple[str, ...]
    stack: str


class StallWatch:
    """Watches the loop of the thread that starts it, whose timer is ``lag``'s.

    ``found`` is called in the watching thread, once for each time that the loop is held up, while
    it is.
    """

    def __init__(self, lag: LoopLag, found: Callable[[Stall], None]) -> None:
        self._lag = lag
        self._found = found
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins to watch."""
        self._over.clear()
        watched = threading.get_ident()
        self._thread = threading.Thread(
            target=self._watch, args=(watched,), name="relay-stalls", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Watches no more."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _watch(self, watched: int) -> None:
        told, looked = None, time.monotonic()
        while not self._over.wait(LOOK_SECONDS):
            now, due = time.monotonic(), self._lag.due
            # What this thread did not run for either was the machine, and not the loop.
            awake = now - looked < LOOK_SECONDS + LATE_SECONDS
            looked = now
            if due is not None and now - due > LATE_SECONDS and due != told and awake:
                told = due
                self._tell(watched, now - due)

    def _tell(self, watched: int, late: float) -> None:
        frame = sys._current_frames().get(watched)  # noqa: SLF001 - there is no other way
        if frame is None:
            return
        stack = "".join(traceback.format_stack(frame)[-STACK_CALLS:])
        try:
            self._found(Stall(late, tuple(_modules(frame)), stack))
        except Exception:  # noqa: BLE001 - a mistake in telling must not end the watching
            _log.exception("that the event loop is held up could not be told")


def _modules(frame: FrameType | None) -> Iterator[str]:
    while frame is not None:
        yield str(frame.f_globals.get("__name__", ""))
        frame = frame.f_back
