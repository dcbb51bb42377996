"""When a process ends: asked once, in order; asked again, at once."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading
from collections.abc import Callable

EXIT_CUT_SHORT = 1

_log = logging.getLogger(__name__)


class Ending:
    """The end of a process, to be waited for.

    Once it is forced, the process is gone after ``forced_seconds``, whatever holds it up.
    """

    def __init__(self, forced_seconds: float) -> None:
        self.asked = asyncio.Event()
        self.forced = asyncio.Event()
        self.on_hangup: Callable[[], None] | None = None
        """What SIGHUP does."""
        self._forced_seconds = forced_seconds

    def ask(self) -> None:
        """Asks for an orderly end; a second time does not change anything."""
        self.asked.set()

    def force(self) -> None:
        """Asks for the end now: no answer is waited for, usage is still handed over."""
        self.asked.set()
        if self.forced.is_set():
            return
        self.forced.set()
        # A thread, because a sink or a database may hold up the event loop's own end.
        timer = threading.Timer(self._forced_seconds, os._exit, (EXIT_CUT_SHORT,))
        timer.daemon = True
        timer.start()

    def on_signals(self) -> None:
        """Takes the first SIGTERM or SIGINT as asking, the second as forcing, and SIGHUP as asking
        to read the configuration again."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        loop.add_signal_handler(signal.SIGHUP, self._hung_up)

    def _hung_up(self) -> None:
        if self.on_hangup is None:
            _log.info("SIGHUP is ignored: the gateway is still starting")
        else:
            self.on_hangup()

    def _signalled(self) -> None:
        if self.asked.is_set():
            self.force()
        else:
            self.ask()
