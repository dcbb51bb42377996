"""The supervisor: keeps its children alive, and ends them in order.

It has no event loop, no thread and no part in a request. What it holds for its children are the
listening sockets: callers that knock while a worker is replaced wait in its queue, and another
worker lets them in.
"""

from __future__ import annotations

import gc
import logging
import os
import selectors
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

from relay_gateway.errors import ConfigurationError, RelayError
from relay_gateway.server.backoff import Backoff
from relay_gateway.server.child import EXIT_CONFIGURATION, Work, live
from relay_gateway.server.link import ChildLine, Order, SupervisorLine
from relay_gateway.server.process_signals import SignalPipe, held_back

QUIT_SECONDS = 1.5
"""How long children may take that were told to end now."""
ABANDON_SECONDS = 20.0
"""How long after the time to drain children may take to hand over usage and to close."""

_log = logging.getLogger(__name__)


@dataclass(eq=False)
class Post:
    """A place that one child after another fills. ``slot`` is the number of its socket."""

    name: str
    slot: int
    listening: socket.socket
    work: Work
    ends_last: bool = False
    pid: int | None = None
    line: ChildLine | None = None
    since: float = 0.0
    due: float | None = None
    """When the next child is to be started."""
    stand_in: Post | None = None
    """Who accepts from ``listening`` in the meantime."""
    backoff: Backoff = field(default_factory=Backoff)

    @property
    def serves(self) -> bool:
        """Whether a child is there and ready."""
        return self.line is not None and self.line.ready

    def tell(self, order: Order, slot: int = 0) -> None:
        """Gives an order to the child, where there is one."""
        if self.line is not None:
            self.line.send(order, slot)


class Supervisor:
    """Runs one child for each post until it is told to end by SIGTERM or SIGINT."""

    def __init__(self, posts: Sequence[Post], shutdown_seconds: float) -> None:
        self._posts = posts
        self._shutdown_seconds = shutdown_seconds
        self._signals = SignalPipe()
        self._announce: Callable[[], None] | None = None
        self._failure: RelayError | None = None
        self._ending = False
        self._kill_at = float("inf")
        self._exit_code = 0

    def run(self, ready: Callable[[], None]) -> int:
        """Starts all children, calls ``ready`` when all of them serve, and returns when all have
        ended: 0, or 1 where one did not end by itself.

        Raises the reason when one of them cannot even start.
        """
        self._announce = ready
        gc.collect()
        gc.freeze()
        with self._signals:
            for post in self._posts:
                self._start(post)
            while not self._ending or self._alive():
                self._turn()
        if self._failure is not None:
            raise self._failure
        return self._exit_code

    def _alive(self) -> list[Post]:
        return [post for post in self._posts if post.pid is not None]

    def _turn(self) -> None:
        """Waits for something to happen or to be due, and does what follows."""
        self._wait()
        for post in self._alive():
            self._listen_to(post)
        for number in self._signals.take():
            self._obey(number)
        self._bury()
        now = time.monotonic()
        if now >= self._kill_at:
            self._kill()
        for post in self._posts:
            if post.due is not None and now >= post.due:
                self._start(post)

    def _wait(self) -> None:
        dues = [post.due for post in self._posts if post.due is not None]
        until = min([self._kill_at, *dues])
        timeout = None if until == float("inf") else max(0.0, until - time.monotonic())
        # Not epoll, whose state a child would share.
        with selectors.PollSelector() as selector:
            selector.register(self._signals, selectors.EVENT_READ)
            for post in self._alive():
                if post.line is not None:
                    selector.register(post.line, selectors.EVENT_READ)
            selector.select(timeout)

    # The beginning of a child.

    def _start(self, post: Post) -> None:
        post.due = None
        ours, theirs = socket.socketpair()
        post.since = time.monotonic()
        try:
            with held_back():
                pid = os.fork()
                if pid == 0:
                    self._become(post, ours, theirs)
        except OSError as error:
            _log.error("%s cannot be started: %s", post.name, error.strerror)
            ours.close()
            self._start_later(post)
        else:
            post.pid, post.line = pid, ChildLine(ours)
            _log.info("started %s as process %d", post.name, pid)
        finally:
            theirs.close()

    def _become(self, post: Post, ours: socket.socket, theirs: socket.socket) -> NoReturn:
        """In the child: lets go of what is the supervisor's, and of what other children are for."""
        try:
            ours.close()
            for other in self._posts:
                if other.line is not None:
                    other.line.close()
                # Workers stand in for each other, so they keep each other's sockets.
                if other.ends_last is not post.ends_last:
                    other.listening.close()
            self._signals.leave_to_supervisor()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
        except BaseException:  # noqa: BLE001 - never on into the parent's code
            os._exit(1)
        live(post.work, SupervisorLine(theirs))

    def _listen_to(self, post: Post) -> None:
        line = post.line
        if line is None:
            return
        was_ready = line.ready
        if not line.receive():
            line.close()
            post.line = None
        if line.failure and self._announce is not None and self._failure is None:
            self._failure = RelayError(f"{post.name}: {line.failure}")
        if line.ready and not was_ready:
            self._arrived(post)

    def _arrived(self, post: Post) -> None:
        if post.stand_in is not None:
            post.stand_in.tell(Order.RELEASE, post.slot)
            post.stand_in = None
        if self._announce is not None and all(each.serves for each in self._posts):
            announce, self._announce = self._announce, None
            if not self._ending:
                announce()

    # The end of a child.

    def _bury(self) -> None:
        """Takes the exit codes of children that have ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            for post in self._posts:
                if post.pid == pid:
                    self._ended(post, os.waitstatus_to_exitcode(status))

    def _ended(self, post: Post, code: int) -> None:
        self._listen_to(post)
        if post.line is not None:
            post.line.close()
        post.pid = post.line = None
        if self._ending:
            self._note(post, code)
            self._end_the_last()
        elif self._announce is not None:
            self._give_up(post, code)
        else:
            _log.error("%s ended unexpectedly: %s", post.name, _wording(code))
            self._start_later(post)
        self._find_stand_ins()

    def _note(self, post: Post, code: int) -> None:
        if code:
            self._exit_code = 1
            _log.error("%s did not end in order: %s", post.name, _wording(code))

    def _give_up(self, post: Post, code: int) -> None:
        """One child could not start, so none shall."""
        kind = ConfigurationError if code == EXIT_CONFIGURATION else RelayError
        said = str(self._failure) if self._failure else f"{post.name}: {_wording(code)}"
        self._failure = kind(said)
        self._quit()

    def _start_later(self, post: Post) -> None:
        now = time.monotonic()
        pause = post.backoff.after(now - post.since)
        post.due = now + pause
        _log.info("%s is started again in %.1f s", post.name, pause)

    def _find_stand_ins(self) -> None:
        """Has the socket of each worker that is not there served by one that is."""
        workers = [post for post in self._posts if not post.ends_last]
        ready = [post for post in workers if post.serves]
        if self._ending or self._announce is not None or not ready:
            return
        for post in workers:
            if not post.serves and (post.stand_in is None or not post.stand_in.serves):
                post.stand_in = ready[post.slot % len(ready)]
                post.stand_in.tell(Order.ADOPT, post.slot)

    # The end of all.

    def _obey(self, number: int) -> None:
        if number == signal.SIGHUP:
            for post in self._posts:
                post.tell(Order.RELOAD)
        elif number in (signal.SIGTERM, signal.SIGINT):
            if self._ending:
                self._quit()
            else:
                self._end()

    def _end(self) -> None:
        """Ends the workers, and then the control process."""
        _log.info("stopping")
        self._leave()
        self._kill_at = time.monotonic() + self._shutdown_seconds + ABANDON_SECONDS
        for post in self._posts:
            post.tell(Order.UNREADY if post.ends_last else Order.DRAIN)
        self._end_the_last()

    def _end_the_last(self) -> None:
        alive = self._alive()
        if all(post.ends_last for post in alive):
            for post in alive:
                post.tell(Order.DRAIN)

    def _quit(self) -> None:
        """Ends all children at once."""
        self._leave()
        self._kill_at = min(self._kill_at, time.monotonic() + QUIT_SECONDS)
        for post in self._posts:
            post.tell(Order.QUIT)

    def _leave(self) -> None:
        """Starts no more children, and lets go of the sockets: what callers knock at is theirs."""
        self._ending = True
        for post in self._posts:
            post.due = None
            post.listening.close()

    def _kill(self) -> None:
        self._kill_at = float("inf")
        for post in self._alive():
            if post.pid is not None:
                _log.error("%s has not ended in time and is killed", post.name)
                os.kill(post.pid, signal.SIGKILL)


def _wording(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    return f"killed by {signal.Signals(-code).name}"
