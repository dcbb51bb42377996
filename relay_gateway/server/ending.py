"""When a process ends: asked once, in order; asked again, at once."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import threading

EXIT_CUT_SHORT = 1

_log = logging.getLogger(__name__)


def ignore_hangup() -> None:
    """What SIGHUP does: others reload their configuration, which there is no need for here."""
    _log.info("SIGHUP is ignored: the catalog is always up to date")


class Ending:
    """The end of a process, to be waited for.

    Once it is forced, the process is gone after ``forced_seconds``, whatever holds it up.
    """

    def __init__(self, forced_seconds: float) -> None:
        self.asked = asyncio.Event()
        self.forced = asyncio.Event()
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
        """Takes the first SIGTERM or SIGINT as asking, the second as forcing."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._signalled)
        loop.add_signal_handler(signal.SIGHUP, ignore_hangup)

    def _signalled(self) -> None:
        if self.asked.is_set():
            self.force()
        else:
            self.ask()
