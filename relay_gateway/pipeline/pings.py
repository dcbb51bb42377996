"""Signs of life in streams that say nothing for a while, so that nobody on the way gives up on
them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Pinger:
    """Calls ``write`` with ``line`` whenever nothing was written for ``seconds``.

    Only for streams whose writer ends every event that it begins. One timer serves a stream,
    however much is written.
    """

    __slots__ = ("_line", "_loop", "_paused", "_seconds", "_since", "_timer", "_write")

    def __init__(self, write: Callable[[bytes], None], line: bytes, seconds: float) -> None:
        self._write = write
        self._line = line
        self._seconds = seconds
        self._paused = False
        self._loop = asyncio.get_running_loop()
        self._since = self._loop.time()
        self._timer = self._loop.call_at(self._since + seconds, self._due)

    def written(self) -> None:
        """Something has just been written."""
        self._since = self._loop.time()

    def pause(self, *, paused: bool) -> None:
        """While the caller does not read, there is no need to tell it anything."""
        self._paused = paused

    def stop(self) -> None:
        """The stream is over."""
        self._timer.cancel()

    def _due(self) -> None:
        if self._paused or self._loop.time() >= self._since + self._seconds:
            if not self._paused:
                self._write(self._line)
            self._since = self._loop.time()
        self._timer = self._loop.call_at(self._since + self._seconds, self._due)
