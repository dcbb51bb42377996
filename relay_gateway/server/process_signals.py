"""Signals of a process that has no event loop: as bytes in a pipe, to be waited for with the
rest."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Self

HEARD = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)


class SignalPipe:
    """Hears the signals of :data:`HEARD` while it is entered; a context manager."""

    def __enter__(self) -> Self:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._reading, False)
        os.set_blocking(self._writing, False)
        self._wakeup = signal.set_wakeup_fd(self._writing, warn_on_full_buffer=False)
        self._handlers = {number: signal.signal(number, _heard) for number in HEARD}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._reading)
        os.close(self._writing)

    def fileno(self) -> int:
        """The descriptor, to wait for a signal."""
        return self._reading

    def take(self) -> list[int]:
        """The numbers of the signals that have come."""
        try:
            return list(os.read(self._reading, 4096))
        except BlockingIOError:
            return []

    def leave_to_supervisor(self) -> None:
        """For a child: it is told what to do by its supervisor, and by nobody else.

        A terminal and a service manager signal every process at once; a child that took such a
        signal for itself would not end in its turn.
        """
        signal.set_wakeup_fd(-1)
        os.close(self._reading)
        os.close(self._writing)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """Holds back signals, so that none meets a child that has still its parent's handlers."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HEARD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _heard(_number: int, _frame: FrameType | None) -> None:
    """Does nothing: that a signal came is in the pipe already."""
